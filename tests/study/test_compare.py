"""One loss against a baseline: looks, stopping, going on, and a formula that was edited."""

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest

from similis.cli.compare_plan import comparison_name, comparison_plan, read_contestant
from similis.run.address import NUMERICS
from similis.run.spec import parse_spec
from similis.study.compare import Diary, compare_losses, judge_looks, looked_verdicts
from similis.study.records import Records
from similis.study.statistics.looks import look_verdicts
from similis.study.statistics.variance_components import Scores
from similis.study.tournament_folder import TournamentFolder
from similis.values import UserError
from tests.cli.test_main import ended
from tests.study.small import plan, record
from tests.test_loss_file import TEXT

FAR = {"loss": "contrastive", "name": "frozen", "fixed": True, "lr": 1e-12}  # does not learn
NEAR = {"loss": "proxy_anchor", "fixed": True, "lr": 0.02}


def question(**changes):
    return plan(contestants=[NEAR, FAR], against="frozen", search={"trials": 0}, **changes)


def kept(path: Path, gain: float, spread: float = 0.3) -> None:
    """Results of 15 repetitions on 50 classes, as runs leave them: the first is so many hits of 100 ahead."""
    chance, records = np.random.default_rng(1), Records(path / "records")
    easy = chance.normal(60, 10, 50)
    for number in range(15):
        for name, ahead in (("proxy_anchor", gain), ("frozen", 0.0)):
            hits = np.clip(easy + ahead + chance.normal(0, spread) + chance.normal(0, 2, 50), 0, 100).round()
            made = record(name, number)
            made["per_class"] = {"labels": list(range(50)), "queries": [100] * 50, "hits": hits.astype(int).tolist()}
            records.write(f"search-{name}-r{number}", {"contestant": name, "settings": {}})
            records.write(made["name"], made | {"facts": {"numerics": NUMERICS}})


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    path, seen = tmp_path_factory.mktemp("compare"), []
    kept(path, gain=4.0)
    return compare_losses(question(), path, on_look=seen.append), seen, path


def test_it_stops_at_the_first_look_that_decides(done):
    found, seen, _ = done
    assert found.decided
    assert found.sentence.startswith("proxy_anchor is better than frozen on unseen classes")
    assert [look.repetitions for look in seen] == list(found.looks)
    assert [look.decided for look in seen] == [False] * (len(seen) - 1) + [True]
    assert found.repetitions == found.looks[-1] < 15


def test_a_second_call_shows_the_same_and_runs_nothing(done):
    found, _, path = done
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*.json")}
    again = compare_losses(question(), path, on_look=lambda _: pytest.fail("looked again"))
    assert (again.sentence, again.looks) == (found.sentence, found.looks)
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*.json")} == before


def test_verdicts_are_those_of_the_looks(done):
    found, _, path = done
    rows = {name: [] for name in ("proxy_anchor", "frozen")}
    for number in range(found.repetitions):
        for name, own in rows.items():
            file = path / "records" / f"final-main-equal_samples-{name}-r{number}.json"
            per_class = json.loads(file.read_text())["per_class"]
            own.append(np.array(per_class["hits"]) / np.array(per_class["queries"]))
    stacked = np.stack([np.stack(own, axis=1) for own in rows.values()])
    scores = Scores(tuple(rows), stacked, np.array(per_class["queries"], dtype=float))
    assert list(found.verdicts[-1]) == look_verdicts(scores, found.looks, most=found.most)
    assert looked_verdicts(TournamentFolder(path)) == found.verdicts[-1], "for a report that is written again"
    assert looked_verdicts(TournamentFolder(path / "elsewhere")) is None


def test_the_last_look_in_time_spends_what_is_left_and_closes(tmp_path):
    kept(tmp_path, gain=1.5, spread=0.6)
    begun = {"seconds": [0.001] * 4, "most": 15, "looks": [3], "closed": False}
    (tmp_path / "looks.json").write_text(json.dumps(begun))
    found = compare_losses(question(), tmp_path, hours=1e-9)
    assert (found.looks, found.repetitions) == ((3, 4), 4)
    assert found.verdicts[-1][-1].level > 0.04
    assert compare_losses(question(), tmp_path).repetitions == 4, "closed"


@pytest.mark.parametrize(("gain", "verdict"), [(0.0, "equivalent"), (-4.0, "worse"), (1.0, "undecided")])
def test_every_verdict_can_be_reached(tmp_path, gain, verdict):
    kept(tmp_path, gain, spread=2.0 if verdict == "undecided" else 0.3)
    found = compare_losses(question(), tmp_path)
    assert found.verdicts[-1][-1].verdict == verdict
    assert (found.repetitions == 15) == (not found.decided)


def test_losses_that_did_not_train_have_no_verdict(tmp_path):
    kept(tmp_path, gain=4.0)
    counts = {"labels": list(range(50)), "queries": [100] * 50, "hits": [62] * 50}
    floor = {"name": "floor-main-raw_pixels-r0", "arena": "main", "floor": "raw pixels", "repetition": 0}
    Records(tmp_path / "records").write(floor["name"], floor | {"per_class": counts})
    found = compare_losses(question(floors=False), tmp_path)
    assert found.failed == {"frozen": "raw pixels"}
    assert not found.decided
    assert found.sentence.startswith("No verdict: frozen does not clear the floor, raw pixels.")
    assert found.verdicts[-1][-1].verdict == "better"  # what the numbers alone would say


def test_the_time_decides_how_many_are_planned_before_anybody_looks(tmp_path):
    diary = Diary(tmp_path / "looks.json")
    diary.note(1, 400.0)  # with the floors
    diary.note(2, 50.0)
    diary.settle(hours=699 / 3600)
    assert diary.most == 5
    diary.settle(hours=700 / 3600)
    assert diary.most == 7
    assert Diary(tmp_path / "looks.json").most == 7
    diary.settle(hours=1 / 3600)
    assert diary.most == 3, "fewer say nothing"
    diary.settle(hours=None)
    assert diary.most == 15
    assert [diary.look(n, late=False) for n in (1, 3, 4)] == [False, True, False]
    assert not diary.look(3, late=True), "nobody looks twice at the same"
    assert diary.look(4, late=True)
    again = Diary(tmp_path / "looks.json")
    assert (again.looks, again.closed) == ([3, 4], True)
    assert not again.look(5, late=False), "the error rate is spent"


def test_out_of_time_is_said(tmp_path):
    begun = time.monotonic()
    found = compare_losses(question(), tmp_path, hours=1e-9)
    assert (found.repetitions, found.looks, found.decided) == (1, (), False)
    assert found.sentence.startswith("No verdict: 1 repetition(s) are done")
    longer = compare_losses(question(), tmp_path, hours=1.0)
    assert (longer.repetitions, longer.most) == (3, 3), "what was planned stays"
    assert time.monotonic() > begun


def test_a_crash_inside_a_repetition_goes_on(tmp_path):
    compare_losses(question(), tmp_path, hours=1e-9)
    diary = Diary(tmp_path / "looks.json")
    file = tmp_path / "plan.yaml"
    file.write_text(re.sub(r"repetitions: 1\b", "repetitions: 2", file.read_text()))
    found = compare_losses(question(), tmp_path, hours=1e-9)
    assert (found.repetitions, diary.repetitions) == (2, 1)
    assert judge_looks(question(repetitions=2), found.folder, diary).looks == ()


def test_words_of_the_command_line(tmp_path):
    assert read_contestant("proxy_anchor:margin_cos=0.3,lr=1e-5", fixed=True) == {
        "loss": "proxy_anchor", "fixed": True, "name": "proxy_anchor.margin_cos0.3.lr1em05",
        "options": {"margin_cos": 0.3}, "lr": 1e-05,
    }  # fmt: skip
    with pytest.raises(UserError, match="did you mean 'margin_cos'"):
        read_contestant("proxy_anchor:margin_co=0.3", fixed=False)
    spec = parse_spec({"data": {"source": "synthetic"}, "training": {"epochs": 4}})
    ways = {"fixed": False, "sampler": "own", "margin": 1.0}
    with pytest.raises(UserError, match="are both triplet"):
        comparison_plan(spec, ("triplet", "triplet"), search={"trials": 6}, **ways)
    few, many = (comparison_plan(spec, ("triplet", "margin"), search={"trials": n}, **ways) for n in (3, 6))
    assert (few.search.strategy, many.search.strategy, many.search.epochs) == ("random", "tpe", 2)
    assert comparison_name(few) != comparison_name(many)
    file = tmp_path / "mine.py"
    names = []
    for text in (TEXT, TEXT.replace('"""A loss', '"""My loss'), TEXT.replace("- scale", "- 2 * scale")):
        file.write_text(text)
        names.append(read_contestant(f"{file}:mine", fixed=False)["name"])
    assert names[0] == names[1] != names[2], "an edited formula is a new contestant, edited words are not"


@pytest.mark.timeout(600)
def test_a_loss_in_a_file_is_judged_in_one_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(TEXT)
    words = ["compare", "synthetic?classes=16&images=6&size=12", "--loss", "mine.py:mine", "--against", "proxy_anchor",
             "--trials", "2", "--backbone", "small_conv", "--size", "12", "--dim", "8", "--batch", "20",
             "--epochs", "2", "--set", "training.refit=false", "--hours", "0.0001"]  # fmt: skip
    assert ended(words) == 0
    first = capsys.readouterr().out
    assert "No verdict: 1 repetition(s) are done" in first
    runs = set(Path("comparisons/runs").glob("synthetic-*"))
    assert "report.html" in first
    (tmp_path / "mine.py").write_text(TEXT.replace("- scale", "- 2 * scale"))
    assert ended(words) == 0
    more = set(Path("comparisons/runs").glob("synthetic-*")) - runs
    assert 0 < len(more) < len(runs), "the baseline's runs are found again, those of the old formula are not"
    assert len(list(Path("comparisons").glob("mine.*-proxy_anchor-*"))) == 2
