"""A claim about one condition against another, pooled over losses or over repetitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from similis.study.statistics.significance import LEVEL, MARGIN, Verdict
from similis.study.statistics.variance_components import LEAST_REPETITIONS, Floats
from similis.study.statistics.verdicts import format_p
from similis.values import UserError, import_extra

Unit = Literal["losses", "repetitions"]


@dataclass(frozen=True)
class UnitVerdict:
    """The verdict over one unit: what holds for other losses, or for other repetitions of these losses.

    Attributes:
        unit: what is drawn anew.
        number: of units.
        verdict: condition A against condition B.
        difference, low, high: in points, with the 95 % interval.
        p: two-sided.
    """

    unit: Unit
    number: int
    verdict: Verdict
    difference: float
    low: float
    high: float
    p: float

    @property
    def clause(self) -> str:
        """The verdict in words."""
        return (
            f"over {self.number} {self.unit} {self.verdict} ({self.difference:+.2f} points, 95 % interval "
            f"{self.low:+.2f} to {self.high:+.2f}, {format_p(self.p)})"
        )


@dataclass(frozen=True)
class PooledClaim:
    """The verdict over the named unit, and over the other one."""

    named: UnitVerdict
    other: UnitVerdict

    @property
    def agrees(self) -> bool:
        """Whether both units give the same verdict."""
        return self.named.verdict == self.other.verdict

    def describe(self, conditions: str) -> str:
        """Both verdicts about conditions in words; if they disagree, no general claim is made."""
        end = "" if self.agrees else "; the units disagree, so there is no general claim"
        return f"{conditions}: {self.named.clause}; {self.other.clause}{end}."


def pooled_claim(differences: Floats, unit: Unit, *, margin: float = MARGIN) -> PooledClaim:
    """Test the mean difference over a unit that the caller names, and over the other one.

    Over losses, the means of the repetitions are the sample, and the claim is about other losses. Over repetitions, the
    means of the losses are the sample, and the claim is about these losses only.

    Args:
        differences: (losses, repetitions) condition A minus condition B, of scores in [0, 1].
        unit: ``losses`` or ``repetitions``.
        margin: differences below it, in points, do not matter.

    Example:
        >>> both = np.array([[0.04, 0.05, 0.045], [0.05, 0.04, 0.045], [0.045, 0.05, 0.04]])
        >>> pooled_claim(both, "losses").named.verdict
        'better'
    """
    if unit not in get_args(Unit):
        raise UserError(f"unit {unit!r} given; name what the claim is pooled over: losses or repetitions")
    if differences.ndim != 2 or min(differences.shape) < LEAST_REPETITIONS:
        raise UserError(
            f"differences of shape {differences.shape} given; wanted is (losses, repetitions), at least "
            f"{LEAST_REPETITIONS} of each"
        )
    losses = judge_unit("losses", differences.mean(axis=1), margin)
    repetitions = judge_unit("repetitions", differences.mean(axis=0), margin)
    return PooledClaim(losses, repetitions) if unit == "losses" else PooledClaim(repetitions, losses)


def judge_unit(unit: Unit, sample: Floats, margin: float) -> UnitVerdict:
    """One-sample t test of the mean, and two one-sided tests against the margin."""
    t, number = import_extra("scipy.stats").t, len(sample)
    mean, error, freedom = float(sample.mean()), float(sample.std(ddof=1)) / np.sqrt(number), number - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 1.0 if mean == 0 else float(2 * t.sf(np.float64(abs(mean)) / error, freedom))
        inside = float(t.sf(np.float64(margin / 100 - abs(mean)) / error, freedom))
    verdict: Verdict = "equivalent" if inside <= LEVEL else "undecided"
    if p <= LEVEL:
        verdict = "better" if mean > 0 else "worse"
    half = float(t.isf(LEVEL / 2, freedom)) * error
    return UnitVerdict(unit, number, verdict, 100 * mean, 100 * (mean - half), 100 * (mean + half), p)
