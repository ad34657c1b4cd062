"""Tables of the report: what a cell says is what the statistics found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from similis.study.report.judged_table import JudgedTable, judge_table
from similis.study.report.record import report_record
from similis.study.report.search_tables import group_searches, search_table, settings_table
from similis.study.report.summary import describe_table, missing_tuning
from similis.study.report.tables import held_by_table, held_table, rank_sum_table, result_table
from similis.study.report.verdict_tables import verdict_column, verdict_matrix
from similis.study.statistics.fair_table import FairTable, fair_table
from similis.values import UserError
from tests.study.small import plan, record

SETTINGS = {"lr": 0.25, "temperature": 0.1}


def made(hits: dict[str, list[int]] | None = None, **changes: Any) -> FairTable:
    """Contestant a finds every query of 20 classes, b and c find half; three repetitions."""
    hits = hits or {"a": [6] * 20, "b": [3] * 20, "c": [3] * 20}
    more = {"test": {"recall@1": 0.5, "recall@100": 0.9, "recall@10": 0.7, "map@r": 0.25}, "settings": SETTINGS}
    return fair_table([record(n, each, hits=own) | more | changes for n, own in hits.items() for each in range(3)])


def floor(name: str, hits: int, repetition: int = 0, **changes: Any) -> dict[str, Any]:
    counts = {"labels": list(range(20)), "queries": [6] * 20, "hits": [hits] * 20}
    own = {"name": f"floor-{name}", "arena": "main", "floor": name, "repetition": repetition, "dim": 8}
    return own | {"per_class": counts} | changes


def judge(*floors: dict[str, Any], table: FairTable | None = None, **changes: Any) -> JudgedTable:
    table = table or made()
    names = [{"loss": "triplet", "name": name} for name in table.names]
    own = {"contestants": names, "repetitions": 3, "arenas": [{"name": table.arena}]}
    return judge_table(plan(**own | changes), table, floors)


def test_the_matrix_reads_row_against_column():
    columns, rows = verdict_matrix(judge())
    assert columns == ["", "a", "b", "c"]
    assert rows == [["a", "", "+ (+)", "+ (+)"], ["b", "− (−)", "", "= (=)"], ["c", "− (−)", "= (=)", ""]]


def test_without_a_baseline_the_result_table_has_no_verdicts():
    judged = judge()
    columns, rows = result_table(judged, *verdict_column(judged))
    assert [row[0] for row in rows] == ["a", "b", "c"]
    assert columns[:2] == ["contestant", "R@1 %"]
    assert columns[-3:] == ["R@10 %", "R@100 %", "MAP@R %"]


def test_against_a_baseline_the_column_has_verdicts_and_the_summary_names_it():
    judged = judge(against="b", margin=2.0)
    heading, cells = verdict_column(judged)
    assert (heading, cells) == (
        "against b", {"a": "better (better)", "b": "baseline", "c": "equivalent (equivalent)"},
    )  # fmt: skip
    assert describe_table(judged) == [
        "a has the highest mean R@1, 100.00 %.",
        *(
            f"2 pairs on {target}: 1 significantly different, 1 equivalent (within ±2 points). a is better than b."
            for target in ("unseen classes", "these test classes")
        ),
    ]
    assert "b is worse than a." in describe_table(judge(against="a"))[1]


def test_the_summary_of_two_is_the_verdict_itself():
    judged = judge(table=made({"a": [6] * 20, "b": [3] * 20}), against="b")
    assert describe_table(judged)[1:] == [v.sentence for v in reversed(judged.asked)]


def test_the_summary_counts_all_pairs():
    assert describe_table(judge())[1] == (
        "3 pairs on unseen classes: 2 significantly different, 1 equivalent (within ±1 points). "
        "a is better than b and c."
    )


def test_a_contestant_below_a_baseline_of_its_size_has_a_star_and_is_judged_like_the_others():
    larger = [floor("raw pixels", 6, dim=432), floor("of an old record", 6, dim=None), floor("other", 6, arena="other")]
    judged = judge(*larger, *(floor("untrained network", 4, each) for each in range(3)))
    assert {name: floor for name, (floor, _) in judged.below.items()} == dict.fromkeys("bc", "untrained network")
    assert describe_table(judged)[-1] == "Not above a baseline of the same size: b, c."
    assert (judged.ranking, judged.asked) == (["a", "b", "c"], judge().asked)
    columns, rows = result_table(judged, *verdict_column(judged))
    baselines = [f"baseline: {name}" for name in ("raw pixels", "of an old record", "untrained network")]
    assert [row[0] for row in rows] == ["a", "b *", "c *", *baselines]
    recall = columns.index("R@1 %")
    assert [row[recall] for row in rows] == ["100.00", "50.00", "50.00", "100.00", "100.00", "66.67"]


def test_a_floor_of_other_test_classes_is_refused():
    other = floor("raw pixels", 1)
    other["per_class"]["labels"][0] = 99
    with pytest.raises(UserError, match="test labels differs"):
        judge(other)


def test_a_table_is_judged_once_at_the_number_of_repetitions_that_its_plan_declares():
    early = judge(repetitions=4, against="b")
    assert (early.asked, early.decided) == ([], False)
    assert describe_table(early)[1] == (
        "No verdict: 3 of 4 repetitions are done, and a tournament is judged once, at the number "
        "that its plan declares."
    )
    assert verdict_column(early) == ("", {})


def test_results_older_than_the_rule_and_tables_without_the_baseline_have_no_verdict():
    older, other = made(), made({"b": [3] * 20, "c": [3] * 20})
    del older.records["c"][2]["rule"]
    for table, said in ((older, "are older than the rule of judgement"), (other, "the baseline a is not in this")):
        judged = judge(table=table, against="a", contestants=[{"loss": "triplet", "name": name} for name in "abc"])
        assert judged.asked == []
        assert said in describe_table(judged)[1]


def test_samplers_have_a_column_only_if_they_differ():
    table = made()
    spec = {"training": {"sampler": "random"}, "objective": {"preset": None}}
    table.records["b"][0]["spec"] = spec
    columns, rows = result_table(judge(table=table), "", {})
    assert [row[columns.index("sampler")] for row in rows] == ["balanced", "random", "balanced"]


def search(name: str, repetition: int, settings: dict[str, float], **changes: Any) -> dict[str, Any]:
    space = {"margin": [0.0, 1.0, 0.1, False], "lr": [0.01, 1.0, None, True]}
    return {
        "contestant": name, "repetition": repetition, "settings": settings, "values": [0.2, 0.5], "trials": 2,
        "preset_value": 0.2, "value": 0.5, "pruned": 1, "diverged": 0, "samples": 100, "space": space,
    } | changes  # fmt: skip


def test_settings_near_an_edge_are_marked_in_the_scale_of_their_range():
    drawn = [{"margin": 0.5, "lr": 0.1}, {"margin": 1.0, "lr": 0.011}, {}]
    searches = group_searches([search("a", n, settings) for n, settings in reversed(list(enumerate(drawn)))])
    terms = plan(contestants=[{"loss": "triplet", "name": "a"}])
    assert settings_table(terms, searches).rows == [
        ["a", "`margin`", "0 to 1", "0.5 (50 %); 1 (100 %, high edge); 0.2 (20 %), preset", "1 of 3"],
        ["a", "`lr`", "0.01 to 1 (log)", "0.1 (50 %); 0.011 (2.07 %, low edge); 0.001 (-50 %, low edge), preset",
         "2 of 3"],
    ]  # fmt: skip


def test_a_fixed_contestant_has_its_options_and_no_gain():
    terms = plan(contestants=[{"loss": "triplet", "name": "a", "fixed": True, "options": {"margin": 0.3}}])
    searches = group_searches([search("a", 0, {}, values=[], trials=0, preset_value=None, value=None, space={})])
    assert search_table(searches).rows == []
    assert settings_table(terms, searches).rows == [["a", "–", "–", "preset paper, `margin` = `0.3`", "–"]]
    assert missing_tuning(terms, made({"a": [3] * 20})).startswith("Nothing was searched")


def test_searches_are_added_over_repetitions_and_their_gain_is_a_mean():
    searches = group_searches([search("a", 0, {}), search("a", 1, {}, value=0.3, diverged=1)])
    assert search_table(searches).rows == [["a", "4 (1 diverged)", "2", "200", "20.00", "40.00", "+20.00"]]


def test_a_shared_search_is_said_and_a_search_for_each_repetition_is_not():
    terms = plan(contestants=[{"loss": "triplet", "name": name} for name in "abc"])
    assert missing_tuning(terms, made(held={"tuning.search.shared": False})) == ""
    assert missing_tuning(terms, made(held={"tuning.search.shared": True})).startswith("One search served all")


def test_settings_are_shared_or_listed_by_table():
    tables = [made(arena=name, held={"model.dim": dim, "seed": 1}) for name, dim in (("small", 8), ("large", 64))]
    assert held_table(tables).rows == [["`seed`", "`1`"]]
    assert held_by_table(tables).rows == [
        ["small, equal samples", "`model.dim` = `8`"], ["large, equal samples", "`model.dim` = `64`"],
    ]  # fmt: skip


def test_ranks_are_summed_over_the_contestants_of_all_tables():
    assert rank_sum_table([made()]) is None
    table = rank_sum_table([made(), made(arena="second"), made({"c": [3] * 20, "a": [6] * 20}, arena="third")])
    assert table is not None
    assert table.rows == [["a", "3", "1.00", "0.00"], ["c", "6", "2.00", "0.00"]]


def test_the_numbers_of_a_report_are_also_plain_values():
    second = made(hits={"a": [5, 6] * 10, "b": [1, 2] * 10, "c": [3, 4] * 10}, arena="second")
    found = json.loads(report_record([judge(floor("raw pixels", 4)), judge(table=second)]))["figures"]
    first, other = found["tables"].values()
    assert first["contestants"]["b"]["mean"] == 0.5
    assert first["below a baseline"].keys() == {"b", "c"}
    assert (first["ranking"], first["paired"], len(first["verdicts"])) == (["a", "b", "c"], True, 2 * 3)
    said = {(v["first"], v["second"], v["target"]): v for v in other["verdicts"]}
    assert said["a", "b", "unseen classes"]["verdict"] == "better"
    assert said["a", "b", "unseen classes"]["difference"] == pytest.approx(400 / 6)
    assert {name: line["sum"] for name, line in found["ranks"].items()} == {"a": 2, "b": 5.5, "c": 4.5}
