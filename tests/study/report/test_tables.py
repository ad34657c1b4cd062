"""Tables of the report: what a cell says is what the statistics found."""

from __future__ import annotations

from similis.study.report.tables import held_by_table, held_table, rank_sum_table, verdict_matrix
from similis.study.statistics.fair_table import FairTable, fair_table
from similis.study.statistics.verdicts import pair_verdicts
from tests.study.small import record


def made(**changes: object) -> FairTable:
    """Contestant a finds every query of 20 classes, b and c find none; three repetitions."""
    hits = {"a": [6] * 20, "b": [0] * 20, "c": [0] * 20}
    return fair_table([record(name, seed, hits=own) | changes for name, own in hits.items() for seed in (0, 1, 2)])


def test_the_matrix_reads_row_against_column():
    table = made()
    columns, rows = verdict_matrix(table, pair_verdicts(table.scores))
    assert columns == ["", "a", "b", "c"]
    assert rows == [
        ["a", "", "better (better)", "better (better)"],
        ["b", "worse (worse)", "", "– (–)"],
        ["c", "worse (worse)", "– (–)", ""],
    ]


def test_settings_are_shared_or_listed_by_table():
    tables = [made(arena=name, held={"model.dim": dim, "seed": 1}) for name, dim in (("small", 8), ("large", 64))]
    assert held_table(tables).rows == [["`seed`", "`1`"]]
    assert held_by_table(tables).rows == [
        ["small, equal samples", "`model.dim` = `8`"], ["large, equal samples", "`model.dim` = `64`"],
    ]  # fmt: skip


def test_ranks_are_summed_over_tables_or_over_the_repetitions_of_one():
    over, table = rank_sum_table([made()])
    assert (over, table.rows[0]) == ("3 repetitions of one table", ["a", "3", "1.00", "0.00"])
    over, table = rank_sum_table([made(), made(arena="second"), made(arena="third")])
    assert over == "3 tables"
    assert table.rows == [["a", "3", "1.00", "0.00"], ["b", "7.5", "2.50", "0.00"], ["c", "7.5", "2.50", "0.00"]]
