"""Rates over simulated tournaments: false alarms and power of the verdicts."""

import numpy as np

from similis.study.statistics.significance import Target, judge
from tests.statistics.simulated import World, tournament

HERE = "these test classes"


def false_alarms(
    world: World, repetitions: int, number: int, *, target: Target, against: str | None = None, seed: int = 0
) -> float:
    """Share of tournaments of equal losses with any significant difference; the null is the target's own."""
    chance = np.random.default_rng(seed)
    found = (tournament(world, repetitions, chance, fixed_classes=target == HERE) for _ in range(number))
    return float(np.mean([judge(scores, target, against=against).significant.any() for scores in found]))


def power(
    world: World, repetitions: int, number: int, *, target: Target, points: float | None = None, seed: int = 1
) -> float:
    """How often the second loss is found better than the third; by two median deviations unless points are given."""
    chance = np.random.default_rng(seed)
    gap = 2 * float(np.median(world.repetition_sds)) if points is None else points
    gains = np.where(np.arange(world.losses) == 1, gap, 0.0)
    hits = []
    for _ in range(number):
        found = judge(tournament(world, repetitions, chance, fixed_classes=target == HERE, gains=gains), target)
        pair = int(np.flatnonzero((found.first == 1) & (found.second == 2))[0])
        hits.append(found.verdicts[pair] == "better")
    return float(np.mean(hits))
