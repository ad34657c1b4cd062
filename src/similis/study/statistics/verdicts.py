"""A verdict and its sentence for pairs of losses and both targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from similis.study.statistics.power import required_sample
from similis.study.statistics.significance import (
    LEVEL,
    MARGIN,
    TARGETS,
    Judgement,
    Target,
    Verdict,
    choose_pairs,
    judge_components,
)
from similis.study.statistics.variance_components import Scores, VarianceComponents, variance_components


@dataclass(frozen=True)
class PairVerdict:
    """What is said about two losses and one target. Differences are in points (hundredths of recall).

    Attributes:
        verdict: of the first against the second.
        low, high: 95 % interval, simultaneous over the pairs (or interim analyses) that the correction covers.
        p: corrected, two-sided; compared with ``level``.
        equivalence: corrected p of two one-sided tests against ``margin``.
        within_margin: whether these show that the difference is inside the margin.
        detectable: the difference that would be found with 80 % power.
        required: what would settle an undecided pair; otherwise empty.
    """

    first: str
    second: str
    target: Target
    verdict: Verdict
    difference: float
    error: float
    freedom: float
    low: float
    high: float
    p: float
    equivalence: float
    within_margin: bool
    margin: float
    level: float
    detectable: float
    required: str

    @property
    def sentence(self) -> str:
        """The verdict in words; if undecided, what could have been detected and what would settle it."""
        points = f"{self.difference:+.2f} points"
        spread = f"{points}, 95 % interval {self.low:+.2f} to {self.high:+.2f}, {format_p(self.p)}"
        if self.level != LEVEL:
            spread += f" at a level of {self.level:.2g} for this interim analysis"
        if self.verdict == "equivalent":
            return (
                f"{self.first} and {self.second} are equivalent on {self.target}: the difference is within "
                f"±{self.margin:.2f} points ({points}, {format_p(self.equivalence)} of two one-sided tests)."
            )
        if self.verdict == "undecided":
            return (
                f"{self.first} against {self.second} on {self.target} is undecided ({spread}). The smallest detectable "
                f"difference is {self.detectable:.2f} points; {self.required}."
            )
        small = f" The difference is within the margin of ±{self.margin:.2f} points." if self.within_margin else ""
        return f"{self.first} is {self.verdict} than {self.second} on {self.target} ({spread}).{small}"


def format_p(p: float) -> str:
    """A p value in words.

    Example:
        >>> format_p(0.0421), format_p(0.00001)
        ('p = 0.042', 'p < 0.001')
    """
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def pair_verdicts(scores: Scores, *, against: str | None = None, margin: float = MARGIN) -> list[PairVerdict]:
    """Verdicts for both targets, about all pairs or about every contestant against one baseline.

    Args:
        scores: at least three repetitions.
        against: the baseline, named second. Holm's correction then covers only these comparisons; a single one needs
            none. None for all pairs, the loss with the higher mean named first.
        margin: differences below it, in points, do not matter.
    """
    found = variance_components(scores)
    first, second = choose_pairs(scores.names, against)
    if against is None:
        ahead = found.difference[first, second] >= 0
        first, second = np.where(ahead, first, second), np.where(ahead, second, first)
    out = []
    for target in TARGETS:
        judgement = judge_components(found, target, first, second, margin=margin)
        out += [pair_verdict(scores, found, judgement, pair, margin) for pair in range(len(first))]
    return out


def pair_verdict(
    scores: Scores, found: VarianceComponents, judgement: Judgement, pair: int, margin: float
) -> PairVerdict:
    """The verdict about one pair."""
    c, d = int(judgement.first[pair]), int(judgement.second[pair])
    difference, half = 100 * float(judgement.difference[pair]), 100 * float(judgement.half_width[pair])
    verdict, required = judgement.verdicts[pair], ""
    if verdict == "undecided":
        sample = required_sample(found, c, d, judgement.target, pairs=len(judgement.p), margin=margin)
        required = sample.describe(found.repetitions)
    return PairVerdict(
        first=scores.names[c],
        second=scores.names[d],
        target=judgement.target,
        verdict=verdict,
        difference=difference,
        error=100 * float(np.sqrt(judgement.variance[pair])),
        freedom=float(judgement.freedom[pair]),
        low=difference - half,
        high=difference + half,
        p=float(judgement.holm[pair]),
        equivalence=float(judgement.equivalence[pair]),
        within_margin=bool(judgement.within_margin[pair]),
        margin=margin,
        level=judgement.level,
        detectable=100 * float(judgement.detectable[pair]),
        required=required,
    )
