"""Tables of the report: what a cell says is what the statistics found."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from similis.study.report.judged_table import JudgedTable, judge_table
from similis.study.report.record import report_record
from similis.study.report.search_tables import group_searches, search_table, settings_table
from similis.study.report.summary import describe_batches, describe_table, missing_tuning
from similis.study.report.tables import held_by_table, held_table, rank_sum_table, result_table
from similis.study.report.verdict_tables import (
    failed_table,
    variance_table,
    verdict_column,
    verdict_matrix,
)
from similis.study.statistics.fair_table import FairTable, fair_table
from similis.values import UserError
from tests.study.small import plan, record

SETTINGS = {"lr": 0.25, "temperature": 0.1}


def made(hits: dict[str, list[int]] | None = None, **changes: Any) -> FairTable:
    """Contestant a finds every query of 20 classes, b and c find half; three repetitions."""
    hits = hits or {"a": [6] * 20, "b": [3] * 20, "c": [3] * 20}
    more = {
        "test": {"recall@1": 0.5, "map@r": 0.25}, "settings": SETTINGS,
        "spec": {"training": {"sampler": "balanced"}, "objective": {"preset": "paper", "options": {"margin": 0.5}}},
    }  # fmt: skip
    return fair_table([record(n, each, hits=own) | more | changes for n, own in hits.items() for each in range(3)])


def floor(name: str, hits: int, repetition: int = 0, arena: str = "main") -> dict[str, Any]:
    counts = {"labels": list(range(20)), "queries": [6] * 20, "hits": [hits] * 20}
    return {"name": f"floor-{name}", "arena": arena, "floor": name, "repetition": repetition, "per_class": counts}


def judge(*floors: dict[str, Any], table: FairTable | None = None, **changes: Any) -> JudgedTable:
    names = [{"loss": "triplet", "name": name} for name in "abc"]
    return judge_table(plan(contestants=names, **changes), table or made(), floors)


def test_the_matrix_reads_row_against_column():
    columns, rows = verdict_matrix(judge())
    assert columns == ["", "a", "b", "c"]
    assert rows == [["a", "", "+ (+)", "+ (+)"], ["b", "− (−)", "", "= (=)"], ["c", "− (−)", "= (=)", ""]]


def test_without_a_baseline_the_result_table_has_no_verdicts():
    judged = judge()
    columns, rows = result_table(judged, *verdict_column(judged))
    assert [row[0] for row in rows] == ["a", "b", "c"]
    assert columns[:2] == ["contestant", "R@1 %"]


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
    judged = judge(table=made().keep(["a", "b"]), against="b")
    assert describe_table(judged)[1:] == [v.sentence for v in reversed(judged.asked)]


def test_a_crossed_plan_pools_its_batches_over_losses_and_names_the_other_unit():
    chance = np.random.default_rng(0)
    hits = {f"{name}+{way}": [(3 if way == "random" else 5) + name.count("b")] * 20
            for name in ("a", "b", "c", "d") for way in ("balanced", "random")}  # fmt: skip
    rows = [
        record(name, number, hits=[min(6, max(0, each - int(chance.integers(0, 2)))) for each in own])
        for name, own in hits.items()
        for number in range(3)
    ]
    said = describe_batches(fair_table(rows), 1.0)
    assert said.startswith("Balanced against random batches: over 4 losses better")
    assert "over 3 repetitions" in said
    assert describe_batches(made(), 1.0) == ""


def test_the_summary_counts_all_pairs():
    assert describe_table(judge())[1] == (
        "3 pairs on unseen classes: 2 significantly different, 1 equivalent (within ±1 points). "
        "a is better than b and c."
    )


def test_a_contestant_below_a_floor_leaves_ranks_and_matrix():
    floors = [floor("raw pixels", 4), *(floor("untrained network", 1, each) for each in range(3))]
    judged = judge(*floors)
    assert judged.ranking == ["a"]
    assert failed_table(judged).rows == [
        [
            name,
            "50.00",
            "raw pixels",
            "-16.67",
            "-16.67",
            "preset paper, `margin` = `0.5`, `lr` = `0.25`, `temperature` = `0.1`",
        ]
        for name in "bc"
    ]
    assert describe_table(judged)[-1] == "Did not train: b, c."
    columns, rows = result_table(judged, *verdict_column(judged))
    assert [row[0] for row in rows] == ["a", "baseline: raw pixels", "baseline: untrained network"]
    recall = columns.index("R@1 %")
    assert [row[recall] for row in rows] == ["100.00", "66.67", "16.67"]


def test_a_floor_of_another_arena_or_with_other_images_is_no_bar():
    judged = judge(floor("raw pixels", 6, arena="other"), floor("untouched network, own resolution", 6))
    assert (list(judged.failed), list(judged.floors)) == ([], ["untouched network, own resolution"])
    assert len(judged.asked) == 2 * 3


def test_a_floor_of_other_test_classes_is_refused():
    other = floor("raw pixels", 1)
    other["per_class"]["labels"][0] = 99
    with pytest.raises(UserError, match="test labels differs"):
        judge(other)


def test_a_baseline_that_did_not_train_is_said():
    judged = judge(floor("raw pixels", 4), against="b")
    assert describe_table(judged)[1] == (
        "No verdict: b does not beat raw pixels; c does not beat raw pixels. Contestants that do not beat such a "
        "baseline did not train: train longer, in more dimensions (model.dim), validate on more classes, or take other "
        "data."
    )


def test_samplers_have_a_column_only_if_they_differ():
    table = made()
    spec = {"training": {"sampler": "random"}, "objective": {"preset": None}}
    table.records["b"][0]["spec"] = spec
    columns, rows = result_table(judge(table=table), "", {})
    assert [row[columns.index("sampler")] for row in rows] == ["balanced", "random", "balanced"]


def test_runs_of_a_repetition_tell_tuning_from_the_seed():
    chance = np.random.default_rng(0)
    rows = []
    for each in range(4):
        for run in range(2):
            hits = [int(h) for h in 30 + 10 * (each % 2) + chance.integers(0, 3, size=20)]
            rows.append(record("a", each, hits=hits) | {"run": run})
            rows[-1]["per_class"]["queries"] = [60] * 20
    table = fair_table([row | {"held": {"tuning.search.shared": False}} for row in rows])
    columns, (found, median) = variance_table(table)
    assert columns == ["contestant", "a run", "tuning", "seed", "test classes"]
    tuning, seed = (float(found[columns.index(each)].split(" ")[0]) for each in ("tuning", "seed"))
    assert tuning > 5 > seed
    assert median[2] == f"{tuning:.2f} points"
    assert variance_table(made())[0] == ["contestant", "a run", "test classes"]


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
    table = rank_sum_table([made(), made(arena="second"), made(arena="third").keep(["c", "a"])])
    assert table is not None
    assert table.rows == [["a", "3", "1.00", "0.00"], ["c", "6", "2.00", "0.00"]]


def test_the_numbers_of_a_report_are_also_plain_values():
    second = made(hits={"a": [5, 6] * 10, "b": [1, 2] * 10, "c": [3, 4] * 10}, arena="second")
    found = json.loads(report_record([judge(floor("raw pixels", 4)), judge(table=second)]))["figures"]
    first, other = found["tables"].values()
    assert first["contestants"]["b"]["mean"] == 0.5
    assert first["did not train"].keys() == {"b", "c"}
    assert (first["ranking"], first["verdicts"]) == (["a"], [])
    said = {(v["first"], v["second"], v["target"]): v for v in other["verdicts"]}
    assert said["a", "b", "unseen classes"]["verdict"] == "better"
    assert said["a", "b", "unseen classes"]["difference"] == pytest.approx(400 / 6)
    assert other["standard deviations"]["a"]["tuning"] is None  # one run in each repetition
    assert found["ranks"] == {}  # the first table has one contestant left
    assert json.loads(report_record([judge(), judge(table=second)]))["figures"]["ranks"]["a"]["sum"] == 2
