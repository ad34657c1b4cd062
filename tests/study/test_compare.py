"""One loss against a baseline, a tournament of two: looks, stopping, going on, and a formula that was edited."""

import re
from pathlib import Path

import numpy as np
import pytest

from similis.cli.compare_plan import comparison_name, comparison_plan, read_contestant
from similis.run.address import NUMERICS
from similis.run.spec import parse_spec
from similis.study.looks import Looks
from similis.study.report.judged_table import judge_folder
from similis.study.report.summary import describe_verdicts, plain_losses
from similis.study.statistics.looks import look_verdicts
from similis.study.statistics.variance_components import Scores
from similis.study.tournament import add_contestants, check_reachable, run_until_decided
from similis.study.tournament_folder import TournamentFolder
from similis.values import UserError
from tests.cli.test_main import ended
from tests.study.small import plan, record
from tests.test_loss_file import PLAIN, TEXT

FAR = {"loss": "contrastive", "name": "frozen", "fixed": True, "lr": 1e-12}  # does not learn
NEAR = {"loss": "proxy_anchor", "fixed": True, "lr": 0.02}


def question(**changes):
    return plan(contestants=[NEAR, FAR], against="frozen", search={"trials": 0}, **changes)


def kept(path: Path, gain: float, spread: float = 0.3) -> TournamentFolder:
    """Results of 15 repetitions on 50 classes, as runs leave them: the first is so many hits of 100 ahead."""
    chance, folder = np.random.default_rng(1), TournamentFolder(path)
    easy = chance.normal(60, 10, 50)
    for number in range(15):
        for name, ahead in (("proxy_anchor", gain), ("frozen", 0.0)):
            hits = np.clip(easy + ahead + chance.normal(0, spread) + chance.normal(0, 2, 50), 0, 100).round()
            made = record(name, number)
            made["per_class"] = {"labels": list(range(50)), "queries": [100] * 50, "hits": hits.astype(int).tolist()}
            folder.records.write(f"search-{name}-r{number}", {"contestant": name, "settings": {}})
            folder.records.write(made["name"], made | {"facts": {"numerics": NUMERICS}})
            folder.ledger.note(made["name"])
    return folder


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder, seen = kept(tmp_path_factory.mktemp("compare"), gain=4.0), []
    return run_until_decided(question(), folder.path, on_look=lambda found, _: seen.append(found)), seen, folder


def test_it_stops_at_the_first_look_that_decides(done):
    found, seen, folder = done
    assert found.decided
    assert describe_verdicts(found)[0].startswith("proxy_anchor is better than frozen on unseen classes")
    assert [look.decided for look in seen] == [False] * (len(folder.looks.looks) - 1) + [True]
    assert folder.plan().repetitions == folder.looks.looks[-1] < 15


def test_a_second_call_shows_the_same_and_runs_nothing(done):
    found, _, folder = done
    before = {file: file.stat().st_mtime_ns for file in folder.path.rglob("*.json")}
    again = run_until_decided(question(), folder.path, on_look=lambda *_: pytest.fail("looked again"))
    assert again.asked == found.asked
    assert {file: file.stat().st_mtime_ns for file in folder.path.rglob("*.json")} == before


def test_verdicts_are_those_of_the_looks(done):
    found, _, folder = done
    looks = folder.looks
    rows = {name: [] for name in ("proxy_anchor", "frozen")}
    for number in range(looks.looks[-1]):
        for name, own in rows.items():
            per_class = folder.records.read(f"final-main-equal_samples-{name}-r{number}")["per_class"]
            own.append(np.array(per_class["hits"]) / np.array(per_class["queries"]))
    stacked = np.stack([np.stack(own, axis=1) for own in rows.values()])
    scores = Scores(tuple(rows), stacked, np.array(per_class["queries"], dtype=float), paired=True)
    assert found.asked == look_verdicts(scores, tuple(looks.looks), most=looks.most)
    assert judge_folder(folder)[0].asked == found.asked, "for a report that is written again"
    with pytest.raises(UserError, match="is a comparison"):
        add_contestants(folder.path, ["triplet"])


def test_the_last_look_in_time_spends_what_is_left_and_closes(tmp_path):
    folder = kept(tmp_path, gain=1.5, spread=0.6)
    Looks(tmp_path, [0.001] * 4, most=15, looks=[3]).write()
    found = run_until_decided(question(), tmp_path, hours=1e-9)
    assert (folder.looks.looks, folder.plan().repetitions) == ([3, 4], 4)
    assert found.asked[-1].level > 0.04
    run_until_decided(question(), tmp_path)
    assert folder.plan().repetitions == 4, "closed"


@pytest.mark.parametrize(("gain", "verdict"), [(0.0, "equivalent"), (-4.0, "worse"), (1.0, "undecided")])
def test_every_verdict_can_be_reached(tmp_path, gain, verdict):
    folder = kept(tmp_path, gain, spread=2.0 if verdict == "undecided" else 0.3)
    found = run_until_decided(question(), tmp_path)
    assert found.asked[-1].verdict == verdict
    assert (folder.plan().repetitions == 15) == (not found.decided)


def test_the_time_decides_how_many_are_planned_before_anybody_looks(tmp_path):
    looks = Looks.of(tmp_path)
    looks.note(1, 400.0)  # with the floors
    looks.note(2, 50.0)
    looks.settle(hours=699 / 3600)
    assert looks.most == 5
    looks.settle(hours=700 / 3600)
    assert looks.most == 7
    assert Looks.of(tmp_path) == looks
    looks.settle(hours=1 / 3600)
    assert looks.most == 3, "fewer say nothing"
    looks.settle(hours=None)
    assert looks.most == 15
    assert [looks.look(n, late=False) for n in (1, 3, 4)] == [False, True, False]
    assert not looks.look(3, late=True), "nobody looks twice at the same"
    assert looks.look(4, late=True)
    again = Looks.of(tmp_path)
    assert (again.looks, again.closed) == ([3, 4], True)
    assert not again.look(5, late=False), "the error rate is spent"


def test_three_repetitions_must_fit_into_the_time(tmp_path):
    looks = Looks(tmp_path, [4000.0])
    with pytest.raises(UserError, match=r"took 67 min, .* take 3\.3 h, and the budget is 3\.0 h; give --hours 3\.4,"):
        check_reachable(looks, 3.0)
    check_reachable(looks, 3.4)
    check_reachable(looks, None)
    looks.note(2, 4000.0)
    check_reachable(looks, 3.0)  # known after the first repetition, and said then


def test_too_little_time_is_said_and_a_crash_inside_a_repetition_goes_on(tmp_path):
    folder = TournamentFolder(tmp_path)
    with pytest.raises(UserError, match=r"so 3, the fewest with a verdict, take .* give --hours 0\.1,"):
        run_until_decided(question(), tmp_path, hours=1e-9)
    assert (folder.looks.looks, len(folder.looks.seconds), len(folder.records.all("final"))) == ([], 1, 2)
    file = tmp_path / "plan.yaml"
    file.write_text(re.sub(r"repetitions: 1\b", "repetitions: 2", file.read_text()))
    found = run_until_decided(question(), tmp_path, hours=1e-9)
    assert (len(found.whole.repetitions), len(folder.looks.seconds), folder.looks.looks) == (2, 2, [])
    assert describe_verdicts(found)[0].startswith("No verdict: 2 repetition(s) are done")
    longer = run_until_decided(question(), tmp_path, hours=1.0)
    assert (len(longer.whole.repetitions), folder.looks.most) == (3, 3), "what was planned stays"


def test_words_of_the_command_line(tmp_path):
    assert read_contestant("proxy_anchor:margin_cos=0.3,lr=1e-5", fixed=True) == {
        "loss": "proxy_anchor", "fixed": True, "name": "proxy_anchor.margin_cos0.3.lr1em05",
        "options": {"margin_cos": 0.3}, "lr": 1e-05,
    }  # fmt: skip
    spec = parse_spec({"data": {"source": "synthetic"}, "training": {"epochs": 4}})
    ways = {"fixed": False, "sampler": "own", "margin": 1.0}
    few, many = (comparison_plan(spec, ("triplet", "margin"), search={"trials": n}, **ways) for n in (1, 2))
    assert (few.search.trials, many.search.trials, many.trial_epochs) == (1, 2, 4)
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
    monkeypatch.setattr("similis.study.looks.LOOKS", (3,))
    words = ["compare", "synthetic?classes=16&images=6&size=12", "--loss", "mine.py:mine", "--trials", "1",
             "--against", "proxy_anchor:fixed=true", "--backbone", "small_conv", "--size", "12", "--dim", "8",
             "--batch", "20", "--epochs", "2", "--set", "training.refit=false",
             "--set", "model.options={width: slim}"]  # fmt: skip
    assert ended([*words, "--hours", "0.00001"]) == 2
    assert "the fewest with a verdict, take" in capsys.readouterr().err
    assert ended(words) == 0
    said = capsys.readouterr().out
    assert "interim analysis after 3 of at most 3 repetitions" in said
    assert re.search(r"mine\.\w{6} .* proxy_anchor\S* .*on unseen classes", said)
    assert "report.html" in said
    (tmp_path / "mine.py").write_text(TEXT.replace("- scale", "- 2 * scale"))
    assert ended([*words, "--hours", "0.00001"]) == 2
    assert len(list(Path("comparisons").glob("mine.*-proxy_anchor*"))) == 2, "an edited formula is compared anew"


def test_the_report_names_plain_functions(tmp_path):
    (tmp_path / "plain.py").write_text(PLAIN)
    mine = {"loss": f"{tmp_path / 'plain.py'}:plain", "name": "mine", "fixed": True}
    made = plan(contestants=[mine, NEAR], search={"trials": 0})
    assert plain_losses(made, ["proxy_anchor", "mine"]) == ["mine"]
    (tmp_path / "plain.py").unlink()
    assert plain_losses(made, ["mine"]) == []
