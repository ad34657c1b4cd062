"""Rates over simulated tournaments: false alarms and power of a procedure."""

from collections.abc import Callable

import numpy as np

from similis.study.statistics.significance import Target, judge
from similis.study.statistics.variance_components import Scores
from tests.statistics.simulated import World, tournament

Procedure = Callable[[Scores], np.ndarray]  # corrected p of all pairs, in the order of triu_indices


def recommended(target: Target, against: str | None = None) -> Procedure:
    return lambda scores: judge(scores, target, against=against).holm


def false_alarms(
    procedure: Procedure, world: World, repetitions: int, number: int, *, target: Target, seed: int = 0
) -> float:
    """Share of tournaments of equal losses with any significant difference; the null is the target's own."""
    chance = np.random.default_rng(seed)
    fixed = target == "these test classes"
    alarms = (procedure(tournament(world, repetitions, chance, fixed_classes=fixed)) <= 0.05 for _ in range(number))
    return float(np.mean([alarm.any() for alarm in alarms]))


def power(
    procedure: Procedure,
    world: World,
    repetitions: int,
    number: int,
    *,
    target: Target,
    points: float = 2.0,
    seed: int = 1,
) -> float:
    """Share of right sentences about the middle loss, that many points above the rest; the first loss is left out."""
    chance = np.random.default_rng(seed)
    middle = world.losses // 2
    gains = np.where(np.arange(world.losses) == middle, points, 0.0)
    first, second = np.triu_indices(world.losses, 1)
    differ = ((first == middle) | (second == middle)) & (first > 0 if world.losses > 2 else True)
    sign = np.where(first == middle, 1, -1)
    hits = []
    for _ in range(number):
        scores = tournament(world, repetitions, chance, fixed_classes=target == "these test classes", gains=gains)
        right = (procedure(scores) <= 0.05) & (sign * (scores.means[first] - scores.means[second]) > 0)
        hits.append(right[differ].mean())
    return float(np.mean(hits))
