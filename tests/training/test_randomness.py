"""Seeds of a step: pure and distinct."""

from similis.training.randomness import mixed_seed


def test_seeds_are_pure_and_distinct():
    seeds = {mixed_seed(a, b) for a in range(30) for b in range(30)}
    assert len(seeds) == 900
    assert mixed_seed(1, 23) == mixed_seed(1, 23) != mixed_seed(12, 3)
