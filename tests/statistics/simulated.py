"""Simulated tournaments: effects of class, loss and class, repetition, repetition and class, then binomial queries.

The cases of ``VARIANCES`` were fixed before the rule was tried on them: standard deviations over repetitions that are
equal, that are those of the heads study (0.41 to 3.7 points), that have one ten times as large, and that no record of
ours has (0.1 to 10 points). ``PAIRED`` has the same with an effect that all contestants of a repetition share.
"""

from dataclasses import dataclass, replace

import numpy as np

from similis.study.statistics.variance_components import Scores


@dataclass(frozen=True)
class World:
    """Standard deviations in points (hundredths of recall); the contestants' run from ``least`` to ``most``."""

    losses: int = 10
    classes: int = 100
    queries: int = 59
    class_sd: float = 15.0
    interaction_sd: float = 6.0
    least: float = 1.0
    most: float = 1.0
    first: float = 1.0  # factor of the first contestant's
    shared_sd: float = 0.0  # of a repetition, in all contestants; above 0 the scores are paired
    repetition_class_sd: float = 3.0

    @property
    def repetition_sds(self) -> np.ndarray:
        """(losses,)"""
        found = np.geomspace(self.least, self.most, self.losses)
        found[0] *= self.first
        return found


WORLD = World()
VARIANCES = {
    "equal": WORLD,
    "0.41 to 3.7": replace(WORLD, least=0.41, most=3.7),
    "one x10": replace(WORLD, first=10.0),
    "0.1 to 10": replace(WORLD, least=0.1, most=10.0),
}
PAIRED = {f"{name}, paired": replace(world, shared_sd=2.0) for name, world in VARIANCES.items()}
CASES = VARIANCES | PAIRED


def tournament(world: World, repetitions: int, chance: np.random.Generator, *, fixed_classes: bool, gains=0.0):
    """One tournament. With ``fixed_classes`` losses are equal on these classes, otherwise over all classes."""
    m, K = world.losses, world.classes
    sizes = chance.integers(world.queries - 10, world.queries + 2, K).astype(float)
    interaction = chance.normal(0, world.interaction_sd, (m, K))
    if fixed_classes:
        interaction -= (interaction @ sizes / sizes.sum())[:, None]
    repetition = world.repetition_sds[:, None] * chance.standard_normal((m, repetitions))
    repetition = repetition + world.shared_sd * chance.standard_normal(repetitions)
    rate = (
        60
        + chance.normal(0, world.class_sd, K)[None, :, None]
        + interaction[:, :, None]
        + repetition[:, None, :]
        + chance.normal(0, world.repetition_class_sd, (m, K, repetitions))
        + np.broadcast_to(np.asarray(gains, dtype=float), m)[:, None, None]
    )
    hits = chance.binomial(sizes.astype(int)[None, :, None], np.clip(rate, 1, 99) / 100)
    names = tuple(f"loss{c}" for c in range(m))
    return Scores(names, hits / sizes[None, :, None], sizes, paired=world.shared_sd > 0)
