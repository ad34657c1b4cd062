"""Schedules against their formulas."""

import math

import pytest

from similis.training.optimisers import Schedule
from similis.values import UserError


def test_the_ramp_rises_to_one():
    ramp = Schedule("constant", ramp_steps=4)
    assert [ramp.factor(s, 10, 100) for s in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_step_falls_every_so_many_epochs():
    falls = Schedule("step", every_epochs=2, gamma=0.5)
    assert [falls.factor(s, 3, 100) for s in (0, 5, 6, 11, 12)] == [1.0, 1.0, 0.5, 0.5, 0.25]


def test_cosine_ends_at_zero():
    cosine = Schedule("cosine")
    assert [cosine.factor(s, 1, 4) for s in range(5)] == pytest.approx(
        [(1 + math.cos(math.pi * s / 4)) / 2 for s in range(5)]
    )
    assert cosine.factor(9, 1, 4) == pytest.approx(0.0)


def test_unknown_names_get_the_nearest():
    with pytest.raises(UserError, match="did you mean 'cosine'"):
        Schedule("cosin").factor(0, 1, 1)
