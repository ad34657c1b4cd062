"""Simulated tournaments: class, interaction, repetition and repetition x class effects, then binomial queries."""

from dataclasses import dataclass

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
    unstable: int = 0  # losses whose repetitions differ by two points


def tournament(
    world: World, repetitions: int, chance: np.random.Generator, *, fixed_classes: bool, gains=0.0
) -> Scores:
    """One tournament. With ``fixed_classes`` losses are equal on these classes, otherwise over all classes."""
    m, K = world.losses, world.classes
    sizes = chance.integers(world.queries - 10, world.queries + 2, K).astype(float)
    interaction = chance.normal(0, world.interaction_sd, (m, K))
    if fixed_classes:
        interaction -= (interaction @ sizes / sizes.sum())[:, None]
    repetition_sd = np.full(m, world.repetition_sd)
    repetition_sd[: world.unstable] = 2.0
    rate = (
        60
        + chance.normal(0, world.class_sd, K)[None, :, None]
        + interaction[:, :, None]
        + (repetition_sd[:, None] * chance.standard_normal((m, repetitions)))[:, None, :]
        + chance.normal(0, world.repetition_class_sd, (m, K, repetitions))
        + np.broadcast_to(np.asarray(gains, dtype=float), m)[:, None, None]
    )
    # Reflecting keeps means where clipping would shrink them differently for better losses.
    rate = np.clip(rate, 1, 99) / 100
    hits = chance.binomial(sizes.astype(int)[None, :, None], rate)
    return Scores(tuple(f"loss{c}" for c in range(m)), hits / sizes[None, :, None], sizes)
