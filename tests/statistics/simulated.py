"""Simulated tournaments: class, interaction, repetition and repetition x class effects, then binomial queries."""

from dataclasses import dataclass, replace

import numpy as np

from similis.study.statistics.variance_components import Scores


@dataclass(frozen=True)
class World:
    """Standard deviations in points (hundredths of recall), as measured on photos."""

    losses: int = 12
    classes: int = 100
    queries: int = 59
    class_sd: float = 15.0
    interaction_sd: float = 6.0
    repetition_sd: float = 0.55
    repetition_class_sd: float = 3.0
    unstable: float = 1.0  # factor of the repetition_sd of the first losses
    unstable_losses: int = 1
    spread: float = 1.0  # factors from 1 / spread to spread over the losses

    @property
    def repetition_sds(self) -> np.ndarray:
        """(losses,)"""
        factors = np.geomspace(1 / self.spread, self.spread, self.losses)
        factors[: self.unstable_losses] *= self.unstable
        return self.repetition_sd * factors


# A repetition with its own search varies more than a seed: one point.
WORLD = World(losses=9, repetition_sd=1.0)
VARIANCES = {
    "equal": WORLD,
    "one x10": replace(WORLD, unstable=10.0),
    "one x4": replace(WORLD, unstable=4.0),
    "spread": replace(WORLD, spread=2.0),
}


def tournament(world: World, repetitions: int, chance: np.random.Generator, *, fixed_classes: bool, gains=0.0):
    """One tournament. With ``fixed_classes`` losses are equal on these classes, otherwise over all classes."""
    m, K = world.losses, world.classes
    sizes = chance.integers(world.queries - 10, world.queries + 2, K).astype(float)
    interaction = chance.normal(0, world.interaction_sd, (m, K))
    if fixed_classes:
        interaction -= (interaction @ sizes / sizes.sum())[:, None]
    rate = (
        60
        + chance.normal(0, world.class_sd, K)[None, :, None]
        + interaction[:, :, None]
        + (world.repetition_sds[:, None] * chance.standard_normal((m, repetitions)))[:, None, :]
        + chance.normal(0, world.repetition_class_sd, (m, K, repetitions))
        + np.broadcast_to(np.asarray(gains, dtype=float), m)[:, None, None]
    )
    rate = np.clip(rate, 1, 99) / 100
    hits = chance.binomial(sizes.astype(int)[None, :, None], rate)
    return Scores(tuple(f"loss{c}" for c in range(m)), hits / sizes[None, :, None], sizes)
