"""The tables of README and of the results pages are what their committed records give."""

import json
import statistics

import pytest

from benchmarks import (
    cleaning,
    clusters,
    data_faults,
    enrolment,
    fine_tuning,
    first_screen,
    floors,
    known_answers,
    retrieval,
    thesis_heads,
    tuning,
    verdict_rules,
)
from similis.study.compare import Diary, judge_looks
from similis.study.plan.cost import training_samples
from similis.study.plan.jobs import final_jobs, final_spec
from similis.study.plan.plan_file import read_plan
from similis.study.tournament_folder import TournamentFolder
from tests.docs.blocks import ROOT

RESULTS = ROOT / "results"


def page_lines(name: str) -> list[str]:
    return (RESULTS / name).read_text(encoding="utf-8").splitlines()


def words_of(name: str) -> str:
    return " ".join((RESULTS / name).read_text(encoding="utf-8").split())


def figures(name: str) -> dict:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))["figures"]


def test_the_first_screen_shows_its_record():
    readme, found = (ROOT / "README.md").read_text(encoding="utf-8"), figures("first-screen.json")
    assert found["command"] == first_screen.COMMAND
    assert f"\n{first_screen.COMMAND}\n" in readme
    assert [row for row in first_screen.readme_rows(found) if row not in readme.splitlines()] == []
    for number in (
        f"{found['minutes']:.1f} minutes",
        f"{found['pixels']} pixels",
        f"{sum(found['images'].values()):,} photos",
    ):
        assert number in readme


def test_the_page_of_faults_shows_its_record():
    page, found = (
        (ROOT / "docs" / "data-faults.md").read_text(encoding="utf-8").splitlines(),
        figures("data-faults.json"),
    )
    assert set(found) == set(data_faults.DATA)
    assert [row for row in (data_faults.page_row(name, each) for name, each in found.items()) if row not in page] == []


def test_the_page_of_faults_shows_the_clusters():
    page, found = (ROOT / "docs" / "data-faults.md").read_text(encoding="utf-8"), figures("clusters.json")
    assert [row for row in (clusters.page_row(name, found[name]) for name in clusters.DATA) if row not in page] == []


def test_the_page_of_faults_shows_whether_cleaning_pays():
    page, found = (ROOT / "docs" / "data-faults.md").read_text(encoding="utf-8"), figures("cleaning.json")
    planted = found.pop("planted").values()
    assert [row for row in (cleaning.page_row(*each) for each in found.items()) if row not in page] == []
    listed, right = ([each[key] for each in planted] for key in ("excluded", "of them wrong"))
    assert f"held {min(listed)} to {max(listed)} images" in page
    assert f"of which {min(right)} to {max(right)} of the 805 wrong ones" in page
    assert all(abs(each["verdicts"]["excluded"][1]) < 0.5 for each in found.values())  # "less than half a point"
    assert all(each["verdicts"]["true labels"][1] < 1 for each in found.values())  # "less than one point"


def test_the_page_of_retrieval_shows_its_record():
    page = (ROOT / "docs" / "retrieval.md").read_text(encoding="utf-8").splitlines()
    for data, rows in figures("retrieval.json")["kinds"].items():
        assert [row for row in retrieval.page_rows(data, rows) if row not in page] == []


def test_the_page_of_photos_shows_the_floors():
    page, found = page_lines("photos.md"), figures("floors.json")
    assert found
    assert [row for row in (floors.page_row(name, each) for name, each in found.items()) if row not in page] == []


def test_the_page_of_fine_tuning_shows_its_records():
    page, found = page_lines("fine-tuning.md"), figures("fine-tuning.json")
    rows = {name: fine_tuning.page_row(name, row) for name, row in found.items()}
    assert [row for row in rows.values() if row not in page] == []
    trained = [row for name, row in found.items() if "head only" not in name]
    assert all(row[key][1] > 0 for row in trained for key in row if key.startswith("gain"))  # "every interval of"
    heads = {name: row for name, row in found.items() if "head only" in name}
    gains = {name: round(100 * row["gain recall@1 160"][0], 1) for name, row in heads.items()}
    assert (min(gains.values()), max(v for v in gains.values() if v < 0)) == (-1.3, -0.5)  # "loses 0.5 to 1.3"
    assert (min(v for v in gains.values() if v > 0), max(gains.values())) == (4.6, 5.0)  # "gains 4.6 to 5.0"
    assert all(row["gain recall@1 224"][0] < 0 for row in heads.values())  # "has the higher mean on both"


def test_the_page_of_fine_tuning_shows_enrolled_classes():
    page, found = page_lines("fine-tuning.md"), figures("enrolment.json")
    assert [row for name, each in found.items() for row in enrolment.page_rows(name, each) if row not in page] == []
    for row in found.values():
        assert row["old before right"][0] - row["old after right"][0] <= 0.01  # "lose a point or less"
        assert row["new before unknown"][0] < 0.5  # "fewer than half"


def interval(values: list[float], sign: str = "") -> str:
    value, low, high = (f"{100 * each:{sign}.1f}" for each in values)
    return f"{value} ({low} to {high})" if any(values) else ""


def test_the_page_of_fine_tuning_shows_the_untouched_networks_and_two_views():
    page = page_lines("fine-tuning.md")
    for name, row in figures("untouched.json").items():
        data, network = name.split()
        cells = interval(row["recall@1"]), interval(row["gain recall@1"], "+"), interval(row["map@r"])
        assert f"| {data} | {network} | {row['pixels']} | {' | '.join(cells)} |" in page
    for name, row in figures("two-views.json").items():
        cells = interval(row["recall@1"]), interval(row["gain recall@1"], "+"), interval(row["map@r"])
        seeds = ", ".join(f"{100 * each:.1f}" for each in row["recall@1 of each seed"])
        assert f"| {name} | {' | '.join(cells)} | {seeds} |" in page


def test_the_page_of_verification_shows_its_record():
    page, found = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8"), figures("verification.json")
    names = {"cars196": "CARS", "cub200_2011": "CUB", "grocery": "Grocery"}
    for key, name in names.items():
        shares = [
            [found[key][f"{what}{end}"] for end in ("", " low", " high")] for what in ("tar@0.01", "tar@0.001", "eer")
        ]
        cells = " | ".join(interval(each).replace(" (", " % (") for each in shares)
        assert f"| {cells} | {found[key]['opis']:.3f} | {found[key]['threshold']:.3f} |" in page, name
    for key in ("cars196", "cub200_2011"):
        row = found[f"{key} promise"]
        far = {
            name: [row[f"{name}{what}"] for what in ("far", "low", "high")]
            for name in ("", *(f"{n} " for n in names))
            if f"{name}far" in row
        }
        said = {name: "{:.3f} ({:.3f} to {:.3f})".format(*each) for name, each in far.items()}
        others = ", ".join(f"{names[name.strip()]} {text}" for name, text in said.items() if name)
        held = f"{row['held']} of {row['divisions']} divisions, mean FAR {row['mean far']:.3f}"
        assert f"(threshold {row['threshold']:.3f}) | {said['']} | {held} | {others} |" in page, key
    assert "17 of 20" in page
    assert sum(found[f"{key} promise"]["held"] for key in ("cars196", "cub200_2011")) == 17


def test_every_withdrawn_record_is_named_on_its_page():
    page = (RESULTS / "withdrawn" / "index.md").read_text(encoding="utf-8")
    files = sorted(path.name for path in (RESULTS / "withdrawn").glob("*.parquet"))
    assert files
    assert [name for name in files if f"`{name}`" not in page] == []


def test_the_decision_shows_the_measured_error_and_power():
    page = (ROOT / "docs" / "decisions" / "0006-judgement.md").read_text(encoding="utf-8").splitlines()
    found = figures("verdict-rules.json")
    assert [row for row in verdict_rules.page_rows(found) if row not in page] == []
    pairs = (v for row, each in found.items() if row.startswith("all") for v in each.values())
    assert max(error for values in pairs for error in values["error"].values()) <= 0.06
    looks = [v for row, each in found.items() if row.startswith("compare") for v in each.values()]
    assert max(max(values["error"], values["false equivalence"]) for values in looks) <= 0.06


@pytest.mark.parametrize("path", sorted((RESULTS / "compare").glob("*/plan.yaml")), ids=lambda path: path.parent.name)
def test_a_comparison_says_what_its_records_give(path, monkeypatch):
    monkeypatch.chdir(ROOT)  # a loss in a file is named from here
    folder = TournamentFolder(path.parent)
    found = judge_looks(folder.plan(), folder, Diary(path.parent / "looks.json"))
    page = words_of("compare/index.md")
    assert found.looks
    for verdict in found.verdicts[-1]:
        assert f"{verdict.difference:+.2f} points, {verdict.low:+.2f} to {verdict.high:+.2f}" in page
        assert f"**{verdict.verdict}**" in page
    assert f"{found.repetitions} repetitions" in page
    folder.ledger.check(folder.records.all("final"))


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


def test_the_page_of_comparisons_shows_the_known_answers():
    page, found = page_lines("compare/index.md"), figures("known-answers.json")
    rows = [
        known_answers.table_row(name, each, target) for name, each in found.items() for target in known_answers.TARGETS
    ]
    assert [row for row in ("| " + " | ".join(map(str, row)) + " |" for row in rows) if row not in page] == []
    assert sum(found["same"]["unseen classes"].get(word, 0) for word in ("better", "worse")) <= 6
    assert found["worse"]["unseen classes"]["worse"] >= 32


def test_the_page_of_tuning_shows_its_records():
    found, kept = tuning.measure(tuning.FOLDER), figures("tuning.json")
    rows = tuning.page_rows(found) + tuning.verdict_rows(found)
    assert [row for row in rows if row not in page_lines("tuning/index.md")] == []
    assert kept["verdicts"] == found["verdicts"]
    for key in ("median", "repetitions for a point", "changed places", "detectable", "p if only seeds varied"):
        assert kept[key] == pytest.approx(found[key], rel=1e-3), key
    assert max(found["p if only seeds varied"]) < 0.01  # "p < 0.01"
    folder = TournamentFolder(tuning.FOLDER)
    folder.ledger.check(folder.records.all("final"))  # one opening of the test split for each final model


def test_selection_on_test_and_on_validation_differ_in_nothing_else():
    plans = [read_plan(RESULTS / "selection" / f"{name}.yaml").model_dump() for name in ("validation", "test")]
    held, on_test = plans
    assert (held["terms"]["data"].pop("protocol"), on_test["terms"]["data"].pop("protocol")) == (
        "fixed-validation",
        "default",
    )
    held["name"], held["terms"]["training"]["refit"] = on_test["name"], on_test["terms"]["training"]["refit"]
    held["terms"]["data"]["validation_share"] = on_test["terms"]["data"]["validation_share"]
    assert held == on_test


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
def test_the_page_of_the_thesis_shows_the_heads(folder):
    page, tables = page_lines("thesis/index.md"), thesis_heads.table_figures(folder)
    assert [row for row in thesis_heads.page_rows(tables) if row not in page] == []
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
