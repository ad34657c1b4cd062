"""The context of losses: what holds where, shares of ranks. Real ranks: tests/multiprocess."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from similis.objective.context import Context, current_context, dense, distributed, spread_evenly, tiles


class Second:
    """The second of three ranks; the others are known to have 4 and 1 rows."""

    rank, world = 1, 3

    def counts(self, rows):
        return (4, rows, 1)


@given(st.integers(0, 200), st.integers(1, 20))
def test_shares_differ_by_one_at_most(rows, world):
    found = spread_evenly(rows, world)
    assert len(found) == world
    assert sum(found) == rows
    assert max(found) - min(found) <= 1
    assert list(found) == sorted(found, reverse=True)


def test_contexts_end():
    assert current_context() == Context()
    with distributed(Second()):
        assert current_context().communicator.rank == 1
        assert current_context().partition(2).size == 7
        with tiles(2, 3), distributed(None):
            assert current_context().partition(2) is None
            assert current_context().tiling == (2, 3)
    assert current_context() == Context()


def test_a_context_ends_with_an_error():
    with pytest.raises(ZeroDivisionError), dense():
        raise ZeroDivisionError
    assert current_context() == Context()


def test_threads_have_contexts_of_their_own():
    with dense(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(current_context).result() == Context()
        assert current_context().tiling is None
