"""The pages of comparisons and studies are what their committed records give."""

import statistics

import pytest

from benchmarks import selection, thesis_heads, tuning
from similis.study.plan.jobs import final_jobs, final_spec
from similis.study.plan.plan_file import read_plan
from similis.study.records import training_samples
from similis.study.report.judged_table import judge_folder
from similis.study.tournament_folder import TournamentFolder
from tests.docs.blocks import ROOT
from tests.docs.records import RESULTS, figures, page_lines, words_of


@pytest.mark.parametrize("path", sorted((RESULTS / "compare").glob("*/plan.yaml")), ids=lambda path: path.parent.name)
def test_a_comparison_says_what_its_records_give(path, monkeypatch):
    monkeypatch.chdir(ROOT)  # a loss in a file is named from here
    folder = TournamentFolder(path.parent)
    (found,) = judge_folder(folder)
    page = words_of("compare/index.md")
    for verdict in folder.looks.verdicts(found.plan, found.whole.scores):
        assert f"{verdict.difference:+.2f} points, {verdict.low:+.2f} to {verdict.high:+.2f}" in page
        assert f"**{verdict.verdict}**" in page
    assert f"{len(found.whole.repetitions)} repetitions" in page


def kept_presets(folder: TournamentFolder, name: str) -> str:
    """In how many of its repetitions the search of a contestant came back with the preset."""
    searches = [each for each in folder.records.all("search") if each["contestant"].startswith(name)]
    return f"{sum(each['chosen'].endswith('preset') for each in searches)} of {len(searches)}"


def test_pages_say_how_often_a_search_kept_the_preset():
    page = words_of("compare/index.md")
    again = TournamentFolder(RESULTS / "compare" / "loss-in-a-file-again")
    assert f"{kept_presets(again, 'proxy_anchor')} repetitions of ProxyAnchor" in page
    assert f"in {kept_presets(again, 'soft_gap')} of soft_gap" in page
    heads = TournamentFolder(RESULTS / "thesis" / "heads" / "cub200_2011-lite0")
    assert kept_presets(heads, "multi_similarity") == "5 of 5"  # "in all five repetitions"


def test_searches_of_two_comparisons_against_the_preset():
    from scipy import stats

    searched, preset = (
        [100 * each["test"]["recall@1"] for each in folder.records.all("final") if each["contestant"] == "proxy_anchor"]
        for folder in (
            TournamentFolder(RESULTS / "compare" / name) for name in ("loss-in-a-file-again", "paper-preset")
        )
    )
    gap = statistics.fmean(searched) - statistics.fmean(preset)
    low, high = stats.ttest_ind(searched, preset, equal_var=False).confidence_interval()
    page = words_of("compare/index.md")
    assert f"{gap:.2f} points above it, with an interval (Welch) of {low:+.2f} to {high:+.2f}" in page


def test_known_answers_are_found():
    found = figures("known-answers.json")
    assert sum(found["same"]["unseen classes"].get(word, 0) for word in ("better", "worse")) <= 6
    assert found["worse"]["unseen classes"]["worse"] >= 32


def test_the_record_of_tuning_is_what_its_runs_give():
    found, kept = tuning.measure(tuning.FOLDER), figures("tuning.json")
    assert kept["verdicts"] == found["verdicts"]
    for key in ("median", "repetitions for a point", "orders", "detectable", "trials", "p if only seeds varied"):
        assert kept[key] == pytest.approx(found[key], rel=1e-3), key
    assert max(found["p if only seeds varied"].values()) < 0.01  # "p < 0.01"
    folder = TournamentFolder(tuning.FOLDER)
    folder.ledger.check(folder.records.all("final"))  # one opening of the test split for each final model


def test_sentences_of_the_page_of_tuning():
    from scipy import stats

    found = figures("tuning.json")
    rows = found["losses"]
    assert {(verdict, other) for _, verdict, other, *_ in found["decided"]} == {("better", "contrastive")}
    decided = sorted(first for first, *_ in found["decided"])
    assert len(decided) == 7  # "seven of nine losses"
    assert not {"arcface", "proxy_repulsion"} & {*decided}  # "no pair of theirs is decided"
    assert sum(p < 0.05 for p in found["p of each loss"].values()) == 6  # "six of ten losses"
    searches = TournamentFolder(tuning.FOLDER).records.all("search")
    rates = [each["settings"]["loss_multiplier"] for each in searches if each["contestant"] == "proxy_repulsion"]
    assert 10 <= min(rates) < max(rates) < 16  # "proxies at 10 to 16 times"
    places = [each["chosen"].rsplit("-", 1)[1] for each in searches]
    early = [place for place in places if place == "preset" or int(place) < 4]
    assert (len(early), len(places)) == (31, 50)  # "31 of 50 winners are among the first five"
    poor = [repetition for repetition in rows["proxy_repulsion"]["runs"] if max(repetition) < 0.45]
    assert (len(poor), found["repetitions"]) == (2, 5)  # "two of its five searches"
    assert rows["normface"]["kept preset"] == 3  # "in three of five searches"
    assert len({row["these classes"] for row in rows.values()}) == len(rows) - 5  # "six losses have the same interval"
    p = {
        name: found["orders"]["pairs"]
        * stats.ttest_ind(row["repetitions"], rows["contrastive"]["repetitions"], equal_var=False).pvalue
        for name, row in rows.items()
    }
    alone = sorted(name for name, value in p.items() if value < 0.05)  # "With the variances of each pair alone"
    assert alone == ["margin", "multi_similarity", "normface", "proxy_anchor", "triplet"]
    assert {*decided} - {*alone} == {"proxy_nca_pp", "supcon"}


def test_sentences_of_the_page_of_selection():
    found, page = figures("selection.json"), words_of("selection/index.md")
    again = selection.measure()
    for name, row in found.items():
        assert row["gains"] == pytest.approx(again[name]["gains"])
        assert row["gain"][1] < 0 < row["gain"][2]  # "No significant difference"
        assert row["same settings"] == again[name]["same settings"]
        gains = list(zip(row["gains"], row["same settings"], strict=True))
        assert all(gain < 0 for gain, same in gains if not same)  # "the test side reported less"
        equal = sorted(gain for gain, same in gains if same)
        assert equal[0] >= 0  # "There the gain is between 0 and"
        assert row["epochs"][0][row["gains"].index(equal[-1])] == 21  # "that validation ended at epoch 21"
    late = [gain for row in found.values() for gain in row["best epoch over last"]]
    assert f"{max(late):.1f}<!--" in page
    same = [each for row in found.values() for each in row["same settings"]]
    assert f"in {sum(same)} of {len(same)} searches" in page
    for side in selection.SIDES:
        folder = TournamentFolder(selection.FOLDER / side)
        folder.ledger.check(folder.records.all("final"))


def test_selection_on_test_and_on_validation_differ_in_nothing_else():
    plans = [read_plan(RESULTS / "selection" / name / "plan.yaml").model_dump() for name in ("validation", "test")]
    held, on_test = plans
    assert (held["terms"]["data"].pop("protocol"), on_test["terms"]["data"].pop("protocol")) == (
        "fixed-validation",
        "default",
    )
    held["name"], held["terms"]["training"]["refit"] = on_test["name"], on_test["terms"]["training"]["refit"]
    held["terms"]["data"]["validation_share"] = on_test["terms"]["data"]["validation_share"]
    assert held == on_test


def test_plans_beside_the_study_of_tuning():
    held = read_plan(RESULTS / "tuning" / "plan.yaml")
    plans = {
        name: read_plan(RESULTS / "tuning" / f"{name}.yaml") for name in ("samplers", "wrong-labels", "dimensions")
    }
    best = list(figures("tuning.json")["losses"])[:4]
    assert {each.loss for each in plans["samplers"].contestants} == {*best}  # the four best, each with both samplers
    assert len(plans["samplers"].contestants) == 8
    assert {plan.repetitions for plan in plans.values()} == {5}
    assert {plan.terms.training.epochs for plan in plans.values()} == {held.terms.training.epochs}
    levels = [plans["wrong-labels"].arena_terms(arena).data.wrong_labels for arena in plans["wrong-labels"].arenas]
    assert levels == [0.0, 0.1, 0.3]
    sizes = [plans["dimensions"].arena_terms(arena).model.dim for arena in plans["dimensions"].arenas]
    assert max(sizes) < 512  # the network's own features


def test_cars_are_searched_small_and_tested_large():
    plan = read_plan(RESULTS / "cars" / "plan.yaml")
    assert [plan.arena_terms(arena).model.image_size for arena in plan.arenas] == [64, 128]
    assert plan.repetitions >= 5


STEPS = {  # Table 3 of the thesis: data and network -> rate, epochs between its drops, factor
    "cub200_2011-resnet50": (1e-4, 5, 0.1), "cub200_2011-bn_inception": (1e-4, 10, 0.1),
    "cub200_2011-googlenet": (1e-4, 10, 0.1), "cars196-resnet50": (1e-4, 10, 0.1),
    "cars196-bn_inception": (1e-4, 20, 0.1), "cars196-googlenet": (1e-4, 20, 0.1),
    "sop-resnet50": (6e-4, 10, 0.25), "sop-bn_inception": (6e-4, 20, 0.25), "sop-googlenet": (6e-4, 20, 0.25),
}  # fmt: skip


def test_the_plan_of_the_thesis_is_its_benchmark():
    plan = read_plan(RESULTS / "thesis" / "plan.yaml")
    specs = [final_spec(plan, job, {}) for job in final_jobs(plan)]
    assert len(specs) == 3 * 3 * 4 * 10
    for job, spec in zip(final_jobs(plan), specs, strict=True):
        data, network, dim = job.arena.split("-")
        t = spec.training
        assert (spec.data.source, spec.model.backbone, spec.model.dim) == (data, network, int(dim))
        assert (t.lr, t.every_epochs, t.gamma) == STEPS[f"{data}-{network}"]
        assert t.batch_size == (100 if network == "resnet50" else 180)
        assert (t.epochs, t.optimiser, t.schedule, t.per_class) == (100, "adamw", "step", 5)
        assert (spec.objective.preset, spec.data.protocol) == ("thesis", "default")
    images = {"cub200_2011": 5864, "cars196": 8054, "sop": 59551}
    samples = [training_samples(s, {"train": images[s.data.source]}, 100, 0) for s in specs]
    page = (RESULTS / "thesis" / "index.md").read_text(encoding="utf-8")
    assert f"{sum(samples) / 1e6:.0f} million images" in page


@pytest.mark.parametrize("folder", thesis_heads.finished_folders(), ids=lambda folder: folder.name)
def test_heads_opened_the_test_split_once(folder):
    kept = TournamentFolder(folder)
    kept.ledger.check(kept.records.all("final"))  # one opening of the test split for each final model


def test_no_head_on_birds_is_better_than_the_features_but_one():
    tables = thesis_heads.table_figures(thesis_heads.FOLDER / "cub200_2011-lite0")
    assert sum(len(table["did not train"]) for table in tables.values()) == 39  # "In 39 of 40 cells"
    assert tables["1024"]["ranking"] == ["multi_similarity"]  # "with one exception"
    assert {table["repetitions"] for table in tables.values()} == {5}
    small = tables["64"]
    lost = [small["floors"]["raw vectors"]["mean"] - each["mean"] for each in small["contestants"].values()]
    assert min(lost) > 0.09  # "nine points or more"


def test_the_page_of_the_thesis_says_how_much_repetitions_varied():
    page = " ".join(page_lines("thesis/index.md"))
    tables = thesis_heads.table_figures(thesis_heads.FOLDER / "cub200_2011-lite0")
    cells = [each["repetitions"] for table in tables.values() for each in table["contestants"].values()]
    deviations = [100 * statistics.stdev(cell) for cell in cells]
    assert f"varied by {statistics.median(deviations):.1f} point in the median cell" in page
    assert f"by up to {max(deviations):.1f}" in page
    floor = tables["512"]["floors"]["raw vectors"]["mean"]
    for size, name in (("1024", "proxy_anchor"), ("512", "multi_similarity")):  # "in all five repetitions"
        assert min(tables[size]["contestants"][name]["repetitions"]) > floor
        assert name in tables[size]["did not train"]
