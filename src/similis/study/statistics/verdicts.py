"""A verdict and its sentence for every pair of losses and both targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from similis.study.statistics.power import required_sample
from similis.study.statistics.rank_sums import probability_of_improvement
from similis.study.statistics.significance import TARGETS, Judgement, Target, judge_components
from similis.study.statistics.variance_components import Scores, VarianceComponents, variance_components

Verdict = Literal["better", "no significant difference"]


@dataclass(frozen=True)
class PairVerdict:
    """What is said about two losses and one target. Differences are in points (hundredths of recall)."""

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
    detectable: float
    required: str
    improvement: float

    @property
    def sentence(self) -> str:
        """The verdict in words; without a significant difference, what could have been detected."""
        spread = f"{self.difference:+.2f} points, 95 % interval {self.low:+.2f} to {self.high:+.2f}, p {self.p:.3f}"
        if self.verdict == "better":
            return f"{self.first} is better than {self.second} on {self.target} ({spread})."
        return (
            f"{self.first} and {self.second}: {self.verdict} on {self.target} ({spread}). The smallest detectable "
            f"difference is {self.detectable:.2f} points; {self.required}."
        )


def pair_verdicts(scores: Scores) -> list[PairVerdict]:
    """Every pair, for both targets; the loss with the higher mean is named first."""
    found = variance_components(scores)
    out = []
    for target in TARGETS:
        judgement = judge_components(found, target)
        out += [pair_verdict(scores, found, judgement, pair) for pair in range(len(judgement.p))]
    return out


def pair_verdict(scores: Scores, found: VarianceComponents, judgement: Judgement, pair: int) -> PairVerdict:
    """The verdict about one pair."""
    c, d = int(judgement.first[pair]), int(judgement.second[pair])
    sign = 1.0
    if judgement.difference[pair] < 0:
        c, d, sign = d, c, -1.0
    difference, half = 100 * sign * float(judgement.difference[pair]), 100 * float(judgement.half_width[pair])
    return PairVerdict(
        first=scores.names[c],
        second=scores.names[d],
        target=judgement.target,
        verdict="better" if judgement.significant[pair] else "no significant difference",
        difference=difference,
        error=100 * float(np.sqrt(judgement.variance[pair])),
        freedom=float(judgement.freedom[pair]),
        low=difference - half,
        high=difference + half,
        p=float(judgement.holm[pair]),
        detectable=100 * float(judgement.detectable[pair]),
        required=required_sample(found, c, d, difference / 100, judgement.target).describe(found.repetitions),
        improvement=probability_of_improvement(scores.per_repetition[c], scores.per_repetition[d]),
    )
