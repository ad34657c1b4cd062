"""A setting that holds inside a block and nowhere else."""

from contextlib import suppress
from contextvars import ContextVar

from similis.objective.within import within


def test_the_value_before_comes_back_after_an_error():
    depth = ContextVar("depth", default=0)
    with within(depth, 1):
        with suppress(ZeroDivisionError), within(depth, 2):
            assert depth.get() == 2
            raise ZeroDivisionError
        assert depth.get() == 1
    assert depth.get() == 0
