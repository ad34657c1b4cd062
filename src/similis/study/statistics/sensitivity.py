"""Verdicts that depend on the other contestants."""

from __future__ import annotations

from dataclasses import dataclass

from similis.study.statistics.significance import MARGIN, TARGETS, Target, Verdict, judge
from similis.study.statistics.variance_components import Scores


@dataclass(frozen=True)
class VerdictFlip:
    """A verdict about a pair that changes when another contestant is left out."""

    first: str
    second: str
    target: Target
    left_out: str
    verdict: Verdict
    without: Verdict

    @property
    def sentence(self) -> str:
        """The change in words."""
        return (
            f"{self.first} against {self.second} on {self.target}: {self.verdict}, but {self.without} without "
            f"{self.left_out}."
        )


def verdict_flips(scores: Scores, *, against: str | None = None, margin: float = MARGIN) -> list[VerdictFlip]:
    """Leave out one contestant after the other and list every verdict about the rest that changes.

    The rest is judged as a tournament of its own, so fewer pairs are corrected for and the typical variance is theirs.

    Args:
        scores: three contestants at least, otherwise nothing can be left out.
        against: the baseline, which is never left out; None for all pairs.
        margin: see :func:`similis.study.statistics.verdicts.pair_verdicts`.

    Example:
        >>> import numpy as np
        >>> chance = np.random.default_rng(0)
        >>> y = 0.5 + 0.01 * chance.standard_normal((3, 20, 5)) + np.array([0.1, 0.0, 0.0])[:, None, None]
        >>> verdict_flips(Scores(("a", "b", "c"), y, np.ones(20)))
        []
    """
    if len(scores.names) < 3:
        return []
    whole = {target: verdict_words(scores, target, against, margin) for target in TARGETS}
    flips = []
    for left_out in scores.names:
        if left_out == against:
            continue
        rest = scores.select([name for name in scores.names if name != left_out], scores.values.shape[2])
        for target in TARGETS:
            for (first, second), without in verdict_words(rest, target, against, margin).items():
                verdict = whole[target][first, second]
                if verdict != without:
                    flips.append(VerdictFlip(first, second, target, left_out, verdict, without))
    return flips


def verdict_words(scores: Scores, target: Target, against: str | None, margin: float) -> dict[tuple[str, str], Verdict]:
    """Pair of names -> verdict of the first against the second."""
    found = judge(scores, target, against=against, margin=margin)
    pairs = ((scores.names[c], scores.names[d]) for c, d in zip(found.first, found.second, strict=True))
    return dict(zip(pairs, found.verdicts, strict=True))
