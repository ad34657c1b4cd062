"""Picture of a verification: ROC with its band, similarities of both kinds of pairs, thresholds of the classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from similis.figures.canvas import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 80


def draw_verification(found: Any, title: str) -> Figure:
    """Three panels: ROC over the logarithm of the FAR, similarities, thresholds of single classes.

    Args:
        found: a :class:`similis.retrieval.verification.Verification`, whose package lies beside this one.
        title: above the panels.
    """
    figure = new_figure(11.5, 4.2)
    places = figure.subplots(1, 3, width_ratios=(1, 1.2, 0.8))
    _draw_roc(places[0], found)
    _draw_similarities(places[1], found)
    _draw_class_thresholds(places[2], found)
    for axes in places:
        axes.grid(color="0.9")
        axes.set_axisbelow(True)
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    return figure


def _draw_roc(axes: Axes, found: Any) -> None:
    """True against false accept rate, with the band and the operating point."""
    seen = found.roc_far > 0
    far, tar, low, high = found.roc_far[seen], *(part[seen] for part in found.roc)
    axes.fill_between(far, low, high, color=COLOURS[0], alpha=0.2, linewidth=0, label="95 % interval, other classes")
    axes.plot(far, tar, color=COLOURS[0])
    at = int((far - found.far).abs().argmin())
    words = f"TAR {100 * float(tar[at]):.1f} % at FAR {found.far:g}"
    axes.plot(far[at], tar[at], "o", color=COLOURS[1], label=words)
    axes.set(xscale="log", xlabel="false accept rate", ylabel="true accept rate", ylim=(0, 1.02))
    axes.set_title("ROC", fontsize=10)
    axes.legend(fontsize=8, loc="upper left" if tar[at] < 0.5 else "lower right")


def _draw_similarities(axes: Axes, found: Any) -> None:
    """Share of the pairs of each kind in bins of similarity, and the threshold."""
    span, threshold = (float(found.similarity.min()), float(found.similarity.max())), found.threshold[found.far].value
    kinds = ((found.counts[1], COLOURS[1], "impostor pairs"), (found.counts[0], COLOURS[0], "genuine pairs"))
    for counts, colour, name in kinds:
        axes.hist(
            found.similarity, bins=BINS, range=span, weights=counts / counts.sum(), histtype="stepfilled", color=colour,
            alpha=0.45, label=name,
        )  # fmt: skip
    axes.axvline(threshold, color="black", linewidth=1, linestyle="--", label=f"threshold {threshold:.3f}")
    axes.set(xlabel="similarity", ylabel="share of the pairs", xlim=span)
    axes.set_title("similarities", fontsize=10)
    axes.legend(fontsize=8, loc="upper left")


def _draw_class_thresholds(axes: Axes, found: Any) -> None:
    """Histogram of the thresholds that the classes alone would need."""
    axes.hist(found.class_threshold[~found.class_threshold.isnan()], bins=24, color=COLOURS[2], alpha=0.7)
    axes.axvline(found.threshold[found.far].value, color="black", linewidth=1, linestyle="--")
    axes.set(xlabel=f"threshold at FAR {found.far:g}", ylabel="classes")
    axes.locator_params(axis="y", integer=True)
    axes.set_title("each class alone", fontsize=10)
