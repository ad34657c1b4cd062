"""Seeds of a step: pure, distinct, and invisible outside."""

import torch

from similis.training.randomness import mixed_seed, use_seed


def test_seeds_are_pure_and_distinct():
    seeds = {mixed_seed(a, b) for a in range(30) for b in range(30)}
    assert len(seeds) == 900
    assert mixed_seed(1, 23) == mixed_seed(1, 23) != mixed_seed(12, 3)


def test_the_global_generator_is_as_before():
    state = torch.random.get_rng_state()
    with use_seed(1, 2):
        first = torch.rand(3)
    with use_seed(1, 2):
        second = torch.rand(3)
    assert torch.equal(first, second)
    assert torch.equal(state, torch.random.get_rng_state())
