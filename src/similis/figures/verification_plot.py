"""Picture of a verification: ROC with its band, similarities of both kinds of pairs, thresholds of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from similis.figures.canvas import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 80


@dataclass(frozen=True, eq=False)
class VerificationCurves:
    """What is drawn, as plain numbers.

    Attributes:
        far, threshold: the operating point.
        roc: false accept rate, true accept rate, low and high end of its interval, for each point of the curve.
        similarity, genuine, impostors: similarities, and how many pairs of each kind have them.
        class_thresholds: the threshold that each class alone would need.
    """

    far: float
    threshold: float
    roc: Sequence[tuple[float, float, float, float]]
    similarity: Sequence[float]
    genuine: Sequence[float]
    impostors: Sequence[float]
    class_thresholds: Sequence[float]


def draw_verification(curves: VerificationCurves, title: str) -> Figure:
    """Three panels: ROC over the logarithm of the FAR, similarities, thresholds of single classes.

    Example:
        >>> curves = VerificationCurves(0.1, 0.5, [(0.1, 0.6, 0.5, 0.7)], [0.2, 0.8], [1, 9], [9, 1], [0.4, 0.6])
        >>> len(draw_verification(curves, "two classes").axes)
        3
    """
    figure = new_figure(11.5, 4.2)
    places = figure.subplots(1, 3, width_ratios=(1, 1.2, 0.8))
    _draw_roc(places[0], curves)
    _draw_similarities(places[1], curves)
    _draw_class_thresholds(places[2], curves)
    for axes in places:
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    return figure


def _draw_roc(axes: Axes, curves: VerificationCurves) -> None:
    """True against false accept rate, with the band and the operating point."""
    points = [point for point in curves.roc if point[0] > 0]
    far, tar, low, high = zip(*points, strict=True)
    axes.fill_between(far, low, high, color=COLOURS[0], alpha=0.2, linewidth=0, label="95 % interval, other classes")
    axes.plot(far, tar, color=COLOURS[0])
    at = min(points, key=lambda point: abs(point[0] - curves.far))
    axes.plot([at[0]], [at[1]], "o", color=COLOURS[1], label=f"TAR {100 * at[1]:.1f} % at FAR {curves.far:g}")
    axes.set(xscale="log", xlabel="false accept rate", ylabel="true accept rate", ylim=(0, 1.02))
    axes.set_title("ROC", fontsize=10)
    axes.legend(fontsize=8, loc="upper left" if at[1] < 0.5 else "lower right")


def _draw_similarities(axes: Axes, curves: VerificationCurves) -> None:
    """Share of the pairs of each kind in bins of similarity, and the threshold."""
    kinds = ((curves.impostors, COLOURS[1], "impostor pairs"), (curves.genuine, COLOURS[0], "genuine pairs"))
    for counts, colour, name in kinds:
        total = sum(counts)
        weights = [count / total for count in counts]
        axes.hist(
            curves.similarity, bins=BINS, range=_span(curves), weights=weights, histtype="stepfilled", color=colour,
            alpha=0.45, label=name,
        )  # fmt: skip
    words = f"threshold {curves.threshold:.3f}"
    axes.axvline(curves.threshold, color="black", linewidth=1, linestyle="--", label=words)
    axes.set(xlabel="similarity", ylabel="share of the pairs", xlim=_span(curves))
    axes.set_title("similarities", fontsize=10)
    axes.legend(fontsize=8, loc="upper left")


def _draw_class_thresholds(axes: Axes, curves: VerificationCurves) -> None:
    """Histogram of the thresholds that the classes alone would need."""
    axes.hist(curves.class_thresholds, bins=24, color=COLOURS[2], alpha=0.7)
    axes.axvline(curves.threshold, color="black", linewidth=1, linestyle="--")
    axes.set(xlabel=f"threshold at FAR {curves.far:g}", ylabel="classes")
    axes.locator_params(axis="y", integer=True)
    axes.set_title("each class alone", fontsize=10)


def _span(curves: VerificationCurves) -> tuple[float, float]:
    """Range of similarities that hold pairs."""
    used = [s for s, g, i in zip(curves.similarity, curves.genuine, curves.impostors, strict=True) if g + i > 0]
    return min(used), max(used)
