"""The least time of a step on a card, from counts: launches as for 8,192 rows, traffic that grows with the matrix."""

from __future__ import annotations

import pytest

from benchmarks.device_floor import CLASSES, DIM, FLOOR_OF_PRODUCTS, LIMITS, ROWS, TILE, Floor, count_step


def test_the_formula():
    assert Floor(100, 1555_000_000).seconds == pytest.approx(2e-3)


@pytest.mark.parametrize("way", LIMITS)
@pytest.mark.parametrize("name", FLOOR_OF_PRODUCTS)
def test_a_small_step_tells_the_large_one(count, name, way):
    """A quarter of the rows, classes and tiles has the same launches and a sixteenth of the matrix."""
    small = count_step(name, way, ROWS // 4, DIM // 4, CLASSES // 4, TILE // 4)
    assert Floor(small.launches, 16 * small.traffic).seconds < LIMITS[way] * FLOOR_OF_PRODUCTS[name]


@pytest.mark.slow
@pytest.mark.parametrize("way", LIMITS)
@pytest.mark.parametrize("name", FLOOR_OF_PRODUCTS)
def test_the_large_step(count, name, way):
    assert count_step(name, way).seconds < LIMITS[way] * FLOOR_OF_PRODUCTS[name]
