"""Learning curves: the loss of every step, the recall after every epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from similis.figures.canvas import COLOURS, new_figure
from similis.values import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {"select": "chooses the epoch", "refit": "refit on all training classes"}
TRAINED = "trained"


@dataclass(frozen=True)
class Curve:
    """What one stage of a run left: step -> loss, and epoch -> recall."""

    stage: str
    losses: dict[int, float]
    recalls: dict[int, float]


def read_curves(records: Iterable[Mapping[str, Any]]) -> list[Curve]:
    """The stages in the lines of a run's metrics, in the order in which they ran.

    Example:
        >>> lines = [{"stage": "select", "step": 1, "loss": 2.0}, {"stage": "select", "step": 1, "epoch": 1,
        ...     "recall@1": 0.5}]
        >>> read_curves(lines)
        [Curve(stage='select', losses={1: 2.0}, recalls={1: 0.5})]
    """
    kept = list(records)
    stages = dict.fromkeys(record["stage"] for record in kept if "loss" in record)
    return [
        Curve(
            stage,
            {r["step"]: r["loss"] for r in kept if r["stage"] == stage and "loss" in r},
            {r["epoch"]: r["recall@1"] for r in kept if r["stage"] == stage and {"epoch", "recall@1"} <= r.keys()},
        )
        for stage in stages
    ]


def draw_curves(
    curves: Sequence[Curve], *, chosen: int, measured_on: str, title: str = "", test: Mapping[str, float] | None = None
) -> Figure:
    """Draw the loss above and R@1 below, over epochs.

    Args:
        curves: of the stages.
        chosen: epoch, which is marked.
        measured_on: the classes of the curve of R@1.
        title: of the figure.
        test: network -> R@1 on the test classes; ``trained`` is a point at the chosen epoch, any other a dashed line.
    """
    if not curves:
        raise DataError("the metrics hold no step; curves need at least one")
    recalls = any(curve.recalls for curve in curves)
    figure = new_figure(7.0, 6.2 if recalls else 3.4)
    axes = figure.subplots(2 if recalls else 1, 1, sharex=True, squeeze=False)[:, 0]
    for curve, colour in zip(curves, COLOURS, strict=False):
        epochs = max(curve.recalls, default=max(1, chosen))  # without validation it is as long as the chosen one
        draw_loss(axes[0], curve, colour, max(curve.losses) / epochs)
    axes[0].set(ylabel="loss")
    axes[0].legend(frameon=False, fontsize=8.5)
    if recalls:
        draw_recall(axes[1], next(curve for curve in curves if curve.recalls), chosen, measured_on)
        draw_test(axes[1], test or {}, chosen)
        axes[1].legend(frameon=False, fontsize=8.5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
        axes[1].margins(y=0.12)
        axes[1].set_ylim(top=100)
    axes[-1].set(xlabel="epoch")
    axes[-1].locator_params(axis="x", integer=True)
    for part in axes:
        part.grid(visible=True, color="0.92")
        part.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    return figure


def draw_loss(axes: Axes, curve: Curve, colour: str, per_epoch: float) -> None:
    """Every step pale, a running mean over a twentieth of them strong."""
    at, losses = [step / per_epoch for step in curve.losses], list(curve.losses.values())
    axes.plot(at, losses, color=colour, alpha=0.3, linewidth=0.8)
    smooth = running_mean(losses, max(1, len(losses) // 20))
    axes.plot(at, smooth, color=colour, linewidth=1.8, label=NAMES.get(curve.stage, curve.stage))


def draw_recall(axes: Axes, curve: Curve, chosen: int, measured_on: str) -> None:
    """Recall after each epoch, the chosen one marked."""
    recalls = {epoch: 100 * value for epoch, value in curve.recalls.items()}
    axes.plot(list(recalls), list(recalls.values()), color=COLOURS[0], marker="o", markersize=4, label=measured_on)
    if chosen in recalls:
        best = recalls[chosen]
        axes.plot([chosen], [best], marker="*", markersize=14, color=COLOURS[0], linestyle="", clip_on=False,
                  label=f"epoch {chosen} chosen: {best:.1f} %")  # fmt: skip
    axes.set(ylabel="R@1 in %")


def draw_test(axes: Axes, test: Mapping[str, float], chosen: int) -> None:
    """Recall on the test classes, before and after training."""
    for name, value in test.items():
        label = f"test classes, {name}: {100 * value:.1f} %"
        if name == TRAINED:
            axes.plot([chosen], [100 * value], "s", markersize=7, color=COLOURS[1], clip_on=False, label=label)
        else:
            axes.axhline(100 * value, color=COLOURS[1], linestyle="--", label=label)


def running_mean(values: Sequence[float], width: int) -> list[float]:
    """Means of the last ``width`` values (fewer at the beginning).

    Example:
        >>> running_mean([1.0, 3.0, 5.0], 2)
        [1.0, 2.0, 4.0]
    """
    spans = (values[max(0, end - width) : end] for end in range(1, len(values) + 1))
    return [sum(span) / len(span) for span in spans]
