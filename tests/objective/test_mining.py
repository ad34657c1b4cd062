"""Which miners look at one row at a time. Mining on many ranks: tests/multiprocess."""

from similis.objective.mining import mines_single_rows
from similis.registry import miners


def test_who_mines_row_by_row():
    assert not mines_single_rows(lambda similarity, positive, negative: None)
    assert {m.name for m in miners if not mines_single_rows(m.function)} == {"disjoint", "disjoint_pairs"}
