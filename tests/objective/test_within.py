"""A setting that holds inside a block and nowhere else."""

from contextvars import ContextVar

import pytest

from similis.objective.within import within


def test_the_value_before_comes_back_after_an_error():
    depth = ContextVar("depth", default=0)
    with within(depth, 1):
        with pytest.raises(ValueError), within(depth, 2):
            assert depth.get() == 2
            raise ValueError
        assert depth.get() == 1
    assert depth.get() == 0
