"""The pages of comparisons and studies are what their committed records give."""

import statistics
from collections import Counter

import pytest

from benchmarks import closed_forms, frozen_features, selection, thesis_heads, tuning
from benchmarks.selection import mean_interval
from similis.study.plan.plan_file import read_plan
from similis.study.report.judged_table import judge_folder
from similis.study.statistics.significance import TARGETS
from similis.study.tournament_folder import TournamentFolder
from tests.docs.blocks import ROOT
from tests.docs.records import RESULTS, figures, page_lines, words_of


def test_records_older_than_the_rule_have_no_verdict_and_every_model_looked_once_at_the_test_split(monkeypatch):
    monkeypatch.chdir(ROOT)  # a loss in a file is named from here
    folders = [path.parent for path in sorted(RESULTS.rglob("records.parquet"))]
    assert len(folders) >= 8
    for folder in folders:
        kept = TournamentFolder(folder)
        kept.ledger.check(kept.records.all("final"))
        for judged in judge_folder(kept):
            assert judged.asked == [] or judged.whole.follows_rule, folder


def test_the_record_of_tuning_is_what_its_runs_give():
    found, kept = tuning.measure(tuning.FOLDER), figures("tuning.json")
    for key in ("median", "repetitions for a point", "orders", "trials"):
        assert kept[key] == pytest.approx(found[key], rel=1e-3), key
    assert kept["refit"]["gain"] == pytest.approx(found["refit"]["gain"])
    assert found["refit"]["pairs"] == 10  # "two losses, five repetitions each"


def test_sentences_of_the_page_of_tuning():
    lows = [each["tuning"][1] for each in figures("tuning.json")["losses"].values()]
    assert lows.count(0.0) == 5  # "in five of ten losses the interval of tuning reaches 0"
    alike = [same for row in figures("selection.json").values() for same in row["same settings"]]
    assert (sum(alike), len(alike)) == (8, 10)  # "in 8 of 10 pairs"
    searches = TournamentFolder(tuning.FOLDER).records.all("search")
    rates = [each["settings"]["loss_multiplier"] for each in searches if each["contestant"] == "proxy_repulsion"]
    assert 10 <= min(rates) < max(rates) < 16  # "whose edge its winners touch"
    places = [each["chosen"].rsplit("-", 1)[1] for each in searches]
    early = [place for place in places if place == "preset" or int(place) < 4]
    assert (len(early), len(places)) == (31, 50)  # "31 of 50 winners are among the first five"


def test_the_record_of_selection_is_what_its_runs_give():
    found, again = figures("selection.json"), selection.measure()
    for name, row in found.items():
        assert row["gains"] == pytest.approx(again[name]["gains"])
        assert row["gain"][1] < 0 < row["gain"][2]  # "is not shown to flatter"
    late = [gain for row in found.values() for gain in row["best epoch over last"]]
    assert max(late) == found["proxy_anchor"]["best epoch over last"][3]  # "at most 0.4 points above the last"


def test_selection_on_test_and_on_validation_differ_in_nothing_else():
    plans = [read_plan(RESULTS / "selection" / name / "plan.yaml").model_dump() for name in ("validation", "test")]
    held, on_test = plans
    protocols = [plan["terms"]["data"].pop("protocol") for plan in (held, on_test)]
    assert protocols == ["fixed-validation", "default"]
    held["name"], held["terms"]["training"]["refit"] = on_test["name"], on_test["terms"]["training"]["refit"]
    held["terms"]["data"]["validation_share"] = on_test["terms"]["data"]["validation_share"]
    assert held == on_test


CELLS = thesis_heads.finished_folders(frozen_features.FOLDER)
SECTIONS = {"cars196-lite0": "## Cars", "cub200_2011-lite0": "## Birds"}


@pytest.mark.parametrize("folder", CELLS, ids=lambda folder: folder.name)
def test_the_page_counts_the_verdicts_about_frozen_features(folder):
    section = words_of("frozen-features/index.md").partition(SECTIONS[folder.name])[2].partition(" ## ")[0]
    (judged,) = judge_folder(TournamentFolder(folder))
    for target in TARGETS:
        found = Counter(each.verdict for each in judged.asked if each.target == target)
        counts = ", ".join(f"{found[verdict]} {verdict}" for verdict in ("better", "equivalent", "undecided", "worse"))
        assert f"on {target}: {counts}" in section
    ahead = judged.ranking[: judged.ranking.index("whitening")]
    assert all(name.endswith("+from_whitening") for name in ahead)  # "No loss that begins at random weights"


CLOSED, BEGUN = ("whitening", "pca", "lda"), "+from_whitening"


def measured(judged, part: str, metric: str) -> dict[str, list[float]]:
    """Per cent of every contestant and repetition."""
    return {name: [100 * row[part].get(metric, 0.0) for row in rows] for name, rows in judged.whole.records.items()}


def over(values: dict[str, list[float]], base: list[float]) -> dict[str, tuple[float, float, float]]:
    """Differences with their intervals, simultaneous over 16, where they vary."""
    gains = {name: [a - b for a, b in zip(each, base, strict=True)] for name, each in values.items()}
    return {name: mean_interval(each, intervals=16) for name, each in gains.items() if max(each) > min(each)}


def test_sentences_about_both_cells_of_frozen_features():
    page = words_of("frozen-features/index.md").replace(" > ", " ")  # the box of limits
    worse, higher, above, most = [], [], [], []
    for folder in CELLS:
        (judged,) = judge_folder(TournamentFolder(folder))
        plain = [name for name in judged.whole.names if name not in CLOSED and not name.endswith(BEGUN)]
        far = {v.first: v.verdict for v in judged.asked if v.target == TARGETS[1]}
        worse.append(sum(far[name] == "worse" for name in plain))
        maps, kept = measured(judged, "test", "map@r"), measured(judged, "validation", "recall@1")
        gains = over(maps, maps["whitening"])
        higher.append(sum(gains[name][0] > 0 for name in plain))
        assert max(gains[name][0] for name in plain) < 1  # "by less than a point"
        searched = {name: values[0] for name, values in over(kept, kept["whitening"]).items() if name not in CLOSED}
        above.append(sum(gain > 0 for gain in searched.values()))
        most.append(max(searched[name] for name in plain))
        means = dict(zip(judged.whole.names, judged.whole.scores.means, strict=True))
        floor = {key: float(judged.whole.scores.weights @ each.mean(axis=1)) for key, each in judged.floors.items()}
        assert max(means["lifted"], means["npair"]) < floor["untrained network"]  # "below an untrained network on both"
        needed = [v.detectable for v in judged.asked if v.target == TARGETS[0] and v.verdict == "undecided"]
        assert 2 < min(needed) < max(needed) < 5  # "a difference of two to five points"
    assert (len(plain), worse) == (12, [9, 4])  # "Of the twelve ..., nine are worse ... on unseen cars and four"
    assert min(higher) > 6  # "By MAP@R most of them have"
    assert "11 of 14 searched contestants are above whitening on cars and 12 on birds" in page
    assert above == [11, 12]
    assert "by up to {:.1f} and {:.1f} points".format(*most) in page
    below = [name for name in means if means[name] < floor["raw vectors"]]  # of the birds, which come last
    assert (len(below), len([name for name in below if name not in CLOSED])) == (10, 8)
    up = [name for name, gain in gains.items() if gain[0] > 0]
    assert (len(up), {name for name in up if gains[name][1] > 0}) == (10, {"margin", "triplet", "lda"})


def test_sentences_about_cars():
    page, cell = words_of("frozen-features/index.md"), "cars196-lite0"
    (judged,) = judge_folder(TournamentFolder(frozen_features.FOLDER / cell))
    for target, torn in zip(TARGETS, (2, 5), strict=True):
        asked = [v for v in judged.asked if v.target == target and v.verdict != "undecided" and v.low < 0 < v.high]
        assert len(asked) in (torn, torn - 1)  # proxy_repulsion's interval ends at 0.0
    ahead = [f"{v.low:+.1f} to {v.high:+.1f}" for v in judged.asked if v.target == TARGETS[1] and v.verdict == "better"]
    assert f"({' and '.join(sorted(ahead, reverse=True))}, the grey bars of the figure)" in page
    maps, recall = measured(judged, "test", "map@r"), measured(judged, "test", "recall@1")
    gains = over(maps, maps["whitening"])
    up = [name for name, gain in gains.items() if gain[0] > 0]
    begun = {f"{name}{BEGUN}" for name in ("proxy_anchor", "multi_similarity")}
    assert (len(up), {name for name in up if gains[name][1] > 0}) == (12, begun | {"contrastive", "triplet"})
    start = figures("frozen-features/starts.json")[cell]
    assert f"That start scores {100 * start['recall@1']:.1f} % R@1 and {100 * start['map@r']:.1f} % MAP@R." in page
    assert f"with a shrinkage of {start['shrinkage']:.3f}." in page
    shrunk = 100 * start["recall@1"] - statistics.mean(recall["whitening"])
    assert f"So {shrunk:.1f} points of the lead" in page
    trained = over(recall, [100 * start["recall@1"]] * 6)
    for name, title in (("proxy_anchor", "ProxyAnchor"), ("multi_similarity", "multi-similarity")):
        value, low, high = trained[f"{name}{BEGUN}"]
        assert f"{value:.1f} ({low:+.1f} to {high:+.1f}) for {title}" in page


def test_whitening_is_ahead_of_the_best_head():
    tables = thesis_heads.table_figures(thesis_heads.FOLDER / "cub200_2011-lite0")
    closed = figures("closed-forms.json")["cub200_2011 lite0"]["whitening"]
    page, ahead = " ".join(page_lines("thesis/index.md")), []
    for size, table in tables.items():
        best = max(each["mean"] for each in table["contestants"].values())
        ahead.append(100 * (closed_forms.mean(closed[size], "recall@1") - best))
        assert table["repetitions"] == 5
    assert "by {:.1f}, {:.1f} and {:.1f} points".format(*ahead[:3]) in page
    assert 0 < ahead[3] < 0.1  # "about its mean at 1,024"
    runs = TournamentFolder(thesis_heads.FOLDER / "cub200_2011-lite0").records.all("final")
    own = [run for run in runs if run["contestant"] == "multi_similarity"]
    head = {"512": [], "1024": []}
    for size, values in head.items():
        values += [run["test"]["map@r"] for run in own if run["spec"]["model"]["dim"] == int(size)]
    pairs = [100 * statistics.mean(values) for values in head.values()]
    pairs += [100 * closed_forms.mean(closed[size], "map@r") for size in head]
    assert "multi_similarity has {:.1f} and {:.1f} %, whitening {:.1f} and {:.1f}.".format(*pairs) in page
    searches = TournamentFolder(thesis_heads.FOLDER / "cub200_2011-lite0").records.all("search")
    kept = [each["chosen"].endswith("preset") for each in searches if each["contestant"] == "multi_similarity"]
    assert kept == [True] * 5  # "in all five repetitions"


def test_the_page_of_the_thesis_says_how_much_repetitions_varied():
    page = " ".join(page_lines("thesis/index.md"))
    tables = thesis_heads.table_figures(thesis_heads.FOLDER / "cub200_2011-lite0")
    cells = [each["repetitions"] for table in tables.values() for each in table["contestants"].values()]
    deviations = [100 * statistics.stdev(cell) for cell in cells]
    assert f"varied by {statistics.median(deviations):.1f} point in the median cell" in page
    assert f"by up to {max(deviations):.1f}" in page


def test_the_order_of_networks_fails_in_the_printed_tables_as_often_as_the_errata_say():
    failing = []
    for numbers in (("06", "07", "08"), ("20", "09", "21")):  # ResNet-50, BN-Inception, GoogLeNet on CUB and on CARS196
        files = [(RESULTS / "thesis" / "tables" / f"table{n}.csv").read_text().splitlines()[1:] for n in numbers]
        recalls = [[float(row.split(",")[5]) for row in rows] for rows in files]
        failing.append(sum(not a > b > c for a, b, c in zip(*recalls, strict=True)))
    assert failing == [2, 10]


def test_the_page_of_language_says_what_its_records_give():
    (judged,) = judge_folder(TournamentFolder(RESULTS / "language"))
    page = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
    for loss in ("multi_similarity", "triplet"):
        cells = []
        for key in ("recall@1", "map@r"):
            runs = (judged.whole.records[f"{loss}{end}"] for end in ("", "+language"))
            cells += [f"{100 * statistics.mean(run['test'][key] for run in each):.1f}" for each in runs]
        assert f"| {loss} | {' | '.join(cells)} |" in page
    found = {(v.first, v.second): v for v in judged.asked if v.target == "unseen classes"}
    better = found["multi_similarity", "multi_similarity+language"]
    assert better.verdict == "better"
    assert f"by {better.difference:.1f} points of R@1 ({better.low:.1f} to {better.high:.1f} for other" in page
    assert found["triplet", "triplet+language"].verdict == "undecided"
