"""The tables of README and of the results pages are what their committed records give."""

import statistics

from benchmarks import cleaning, clusters, data_faults, metric, retrieval, verdict_rules
from tests.docs.blocks import ROOT
from tests.docs.records import RESULTS, figures, words_of

MEANS = ("geometric", "median")  # of rows of the record


def test_the_first_page_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 100


def test_the_page_of_faults_shows_its_record():
    page = (ROOT / "docs" / "data-faults.md").read_text(encoding="utf-8").splitlines()
    found = figures("data-faults.json")
    assert set(found) == set(data_faults.DATA)
    assert [row for row in (data_faults.page_row(name, each) for name, each in found.items()) if row not in page] == []


def test_the_page_of_faults_shows_the_clusters():
    page, found = (ROOT / "docs" / "data-faults.md").read_text(encoding="utf-8"), figures("clusters.json")
    assert [row for row in (clusters.page_row(name, found[name]) for name in clusters.DATA) if row not in page] == []
    ours, peer = ([found[name][way] for name in clusters.DATA] for way in ("resolution 5", clusters.KMEANS))
    assert all(a["AMI"] > b["AMI"] for a, b in zip(ours, peer, strict=True))
    assert [a["pair F1"] > b["pair F1"] for a, b in zip(ours, peer, strict=True)] == [True, False, True]
    assert f"on cars196 k-means is ahead by {peer[1]['pair F1'] - ours[1]['pair F1']:.3f}." in page
    scores = [[found[name][f"resolution {r}"]["pair F1"] for r in clusters.RESOLUTIONS] for name in clusters.DATA]
    best = [clusters.RESOLUTIONS[each.index(max(each))] for each in scores]
    assert "is highest at {}, {} and {}.".format(*best) in page


def test_the_page_of_faults_shows_whether_cleaning_pays():
    page, found = (ROOT / "docs" / "data-faults.md").read_text(encoding="utf-8"), figures("cleaning.json")
    planted = found.pop("planted").values()
    assert [row for row in (cleaning.page_row(*each) for each in found.items()) if row not in page] == []
    listed, right = ([each[key] for each in planted] for key in ("excluded", "of them wrong"))
    assert f"held {min(listed)} to {max(listed)} images" in page
    assert f"of which {min(right)} to {max(right)} of the 805 wrong ones" in page
    gains = {name: cleaning.gain(row, "excluded") for name, row in found.items()}
    assert [name for name, (_, low, _) in gains.items() if low > 0] == ["proxy_anchor", "multi_similarity"]  # "pays"
    assert all(cleaning.gain(row, "true labels")[0] < 1 for row in found.values())  # "less than one point"


def test_the_page_of_retrieval_shows_its_record():
    page = (ROOT / "docs" / "retrieval.md").read_text(encoding="utf-8").splitlines()
    for data, rows in figures("retrieval.json")["kinds"].items():
        assert [row for row in retrieval.page_rows(data, rows) if row not in page] == []


def test_sentences_of_the_page_of_fine_tuning():
    found = figures("fine-tuning.json")
    trained = [row for name, row in found.items() if "head only" not in name]
    assert all(row[key][1] > 0 for row in trained for key in row if key.startswith("gain"))  # "every interval of"
    heads = {name: row for name, row in found.items() if "head only" in name}
    gains = {name: round(100 * row["gain recall@1 160"][0], 1) for name, row in heads.items()}
    assert (min(gains.values()), max(v for v in gains.values() if v < 0)) == (-1.3, -0.5)  # "loses 0.5 to 1.3"
    assert (min(v for v in gains.values() if v > 0), max(gains.values())) == (4.6, 5.0)  # "gains 4.6 to 5.0"
    assert all(row["gain recall@1 224"][0] < 0 for row in heads.values())  # "has the higher mean on both"


def test_sentences_about_enrolled_classes():
    page = " ".join((RESULTS / "fine-tuning.md").read_text(encoding="utf-8").split())
    rows = [(each["nearest"], each["for the size"]) for each in figures("classification.json").values()]
    times = [own["enrolled right"][0] / near["enrolled right"][0] for near, own in rows]
    assert f"is found about {min(times):.0f} to {max(times):.0f} times as often as by the nearest" in page
    gains = [own["known right"][0] - near["known right"][0] for near, own in rows]
    assert f"gain up to {100 * max(gains):.0f} points or lose {-100 * min(gains):.0f}." in page
    assert all(0.04 < own["known refused"][0] < 0.06 for _, own in rows)  # "refuses the 5 % that it states"


def test_every_withdrawn_record_is_named_on_its_page():
    page = (RESULTS / "withdrawn" / "index.md").read_text(encoding="utf-8")
    files = sorted(path.name for path in (RESULTS / "withdrawn").glob("*.parquet"))
    assert files
    assert [name for name in files if f"`{name}`" not in page] == []


def test_the_decision_shows_the_measured_error_and_power():
    page = (ROOT / "docs" / "decisions" / "0006-judgement.md").read_text(encoding="utf-8").splitlines()
    found = figures("verdict-rules.json")
    assert [row for row in verdict_rules.page_rows(found) if row not in page] == []
    errors = [error for each in found.values() for values in each.values() for error in values["error"].values()]
    assert max(errors) <= 0.06


def test_sentences_of_the_page_of_tables():
    ours, found = "ours (default: nca)", figures("tables.json")["accuracy"]
    better = set()
    for data, rows in found.items():
        for method, row in rows.items():
            if row["folds"] >= metric.FOLDS and method != ours:
                assert row["ours_minus"] > -row["ours_minus_half"], (data, method)  # "On none of the four"
                better |= {(data, method)} if row["ours_minus"] > row["ours_minus_half"] else set()
    assert better == {
        *((data, "whitened") for data in ("wine", "breast cancer", "digits")),
        ("breast cancer", "metric-learn ITML"),
    }
    ratios = {data: rows[ours]["ratio_to_sklearn_nca"] for data, rows in found.items()}
    assert (min(ratios, key=ratios.get), max(ratios, key=ratios.get)) == ("digits", "wine")
    digits = found["digits"]
    assert digits["Euclidean"]["accuracy"] >= max(
        row["accuracy"] for method, row in digits.items() if row["folds"] >= metric.FOLDS
    )  # "no learned metric beats"


def test_the_page_of_losses_names_what_is_slower_or_larger():
    page, found = words_of("losses.md"), figures("losses.json")
    rows = {**found["peers"], **found["proxy_peers"]}
    slower = {name for name, row in rows.items() if row["speed_up"] < 1}
    proxies = [row["speed_up"] for name, row in found["proxy_peers"].items() if name not in MEANS]
    every = [row["speed_up"] for name, row in rows.items() if name not in MEANS]
    said = f"it is {statistics.median(every):.1f} times faster, and over those of proxy losses "
    assert f"{said}{statistics.median(proxies):.1f}." in page
    told = [f"{name.rpartition(' ')[0]} at {int(name.split()[-1]):,} ({rows[name]['speed_up']:.2f})" for name in slower]
    assert [words for words in told if words not in page] == []
    larger = {name for name, row in rows.items() if "ours_bytes" in row and row["less_memory"] < 1}
    assert larger == {"contrastive 512", "normface 512", "normface 2048", "arcface 128", "cosface 128",
                      "subcenter_arcface 128", "subcenter_arcface 512", "proxy_nca_pp 2048",
                      "soft_triple 512"}  # fmt: skip


def test_the_prediction_of_ten_million():
    found = figures("millions.json")
    said, built = found["prediction 10000000"], found["build 10000000"]
    assert round(built["ours, processor s"] / said["processor s"], 2) == 0.92
    memory = "peak without file pages, MB"
    assert round(built[f"ours, {memory}"] / said[memory], 2) == 1.02


def test_sentences_of_the_second_day():
    found = figures("second-day.json").values()
    inside, rows = [row["inside"] for row in found], [one for row in found for one in row["repetitions"]]
    assert (sum(inside), min(inside), sum(one >= 18 for one in inside), len(rows)) == (149, 15, 7, 160)
    assert round(100 * sum(row["half-width"] for row in found) / len(found), 1) == 1.7
    assert (sum(row["same advice"] for row in found), sum(row["same advice"] < 18 for row in found)) == (152, 2)
