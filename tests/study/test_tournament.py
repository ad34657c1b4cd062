"""A whole tournament in seconds, its report, additions, and what it refuses."""

import json
import os
import re
import shutil

import pytest

from similis.cli.tournament import print_record
from similis.engine.executor import Executor
from similis.run.address import NUMERICS
from similis.study.plan.cost import plan_cost
from similis.study.report.page import write_report
from similis.study.tournament import add_contestants, run_tournament
from similis.study.tournament_folder import TournamentFolder
from similis.training.file_lock import hold_lock
from similis.values import DataError, DivergedError, UserError
from tests.study.small import plan, without_cost

SEARCH = {"trials": 1, "epochs": 1, "startup": 1}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Three contestants, two sizes, run once for all processes of the tests."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "tournament"
    made = plan(
        contestants=["proxy_anchor", "contrastive", "triplet"],
        repetitions=3,
        search=SEARCH,
        arenas=[{"name": "d8"}, {"name": "d4", "model": {"dim": 4}}],
    )
    with hold_lock(folder.with_suffix(".lock")):
        return made, TournamentFolder(folder) if folder.exists() else run_tournament(made, folder)


@pytest.fixture
def copy(done, tmp_path):
    shutil.copytree(done[1].path, tmp_path / "copy")
    return TournamentFolder(tmp_path / "copy")


def test_every_record_is_there_and_the_test_was_opened_once_per_selected_model(done):
    folder = done[1]
    finals = folder.records.all("final")
    assert len(finals) == 3 * 2 * 3
    assert sorted(entry["model"] for entry in folder.ledger.entries()) == sorted(record["name"] for record in finals)
    for record in finals:
        hits, queries = sum(record["per_class"]["hits"]), sum(record["per_class"]["queries"])
        assert record["test"]["recall@1"] == pytest.approx(hits / queries)
        assert record["samples"] == 2 * 20


def test_a_second_call_runs_nothing(done, copy):
    before = {path: path.stat().st_mtime_ns for path in copy.path.rglob("*.json")}
    run_tournament(done[0], copy.path)
    assert {path: path.stat().st_mtime_ns for path in copy.path.rglob("*.json")} == before


@pytest.mark.slow
def test_two_processes_give_the_records_of_one(done, tmp_path):
    made, folder = done
    run_tournament(made, tmp_path / "two", workers=2)
    assert without_cost(tmp_path / "two") == without_cost(folder.path)


def test_one_row_alone_is_the_row_of_the_table(done, tmp_path):
    made, folder = done
    run_tournament(made, tmp_path / "row", only="contrastive")
    alone, whole = without_cost(tmp_path / "row"), without_cost(folder.path)
    assert alone == {name: record for name, record in whole.items() if record["contestant"] == "contrastive"}


def test_the_report_has_everything(copy):
    markdown, page, _ = write_report(copy)
    text, html = markdown.read_text(), page.read_text()
    for word in (
        "## d8, equal samples", "3 pairs on unseen classes", "Verdicts: d8, equal samples", "Row against column",
        "Differences in points to", "sums of ranks", "Paired t tests", "Best R@1 so far by trial",
        "near an edge", "Recall by embedding size", "samples to 95 %", "best minus last epoch", "first preset",
        "held equal", "`training.head_multiplier`", "18 openings", "--only triplet", "peak memory",
    ):  # fmt: skip
        assert word in text, word
        assert word.strip("#` ") in html, word
    for first in (text.partition("<details")[0], html.partition("<details")[0]):
        counts = [first.count(word) for word in ("highest mean R@1", "Differences in points to", "3 repetitions,")]
        assert counts == [2, 2, 1]  # two tables, one plan
    assert text.count("<details") == text.count("</details>") == html.count("</details>") > 10
    shown = re.findall(r"!\[(.*?)\]\((.*?)\)", text)
    assert len(shown) == 2 * 2 + 2
    assert all(len(alt) > 20 and (markdown.parent / file).read_bytes().startswith(b"\x89PNG") for alt, file in shown)
    assert html.count("<img alt=") == len(shown)
    assert not re.search(r'(src|href)="(?!data:)', html), "the page needs nothing from elsewhere"
    assert "elected on test" not in text


def test_other_times_and_packed_records_give_the_same_report_and_nothing_runs_again(copy, done):
    write_report(copy, times=False)
    before = {path.name: path.read_bytes() for path in copy.path.glob("report.*")}
    for path in (copy.path / "records").glob("final-*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"cost": {"seconds": 99.0, "memory_mb": 9999.0}}))
    (copy.path / "records" / ".final-x.json.host.1").touch()  # of a killed process
    assert copy.records.pack() == copy.path / "records.parquet"
    assert not (copy.path / "records").exists()
    shutil.rmtree(copy.path / "runs")
    run_tournament(done[0], copy.path)
    assert not (copy.path / "runs").exists()
    write_report(copy, times=False)
    assert {path.name: path.read_bytes() for path in copy.path.glob("report.*")} == before
    copy.records.packed.write_bytes(copy.records.packed.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"records\.parquet is damaged"):
        copy.records.all("final")


def test_a_result_outside_the_ledger_is_not_shown(copy):
    lines = (copy.path / "ledger.jsonl").read_text().splitlines()
    (copy.path / "ledger.jsonl").write_text("\n".join(lines[1:]) + "\n")
    with pytest.raises(DataError, match="without an entry"):
        write_report(copy)


def test_add_results_of_an_equal_tournament(copy, tmp_path):
    before, arenas = without_cost(copy.path), [{"name": "d8"}, {"name": "d4", "model": {"dim": 4}}]
    made = plan(contestants=["supcon"], arenas=arenas, repetitions=3, search=SEARCH)
    other = run_tournament(made, tmp_path / "other")
    grown = add_contestants(copy.path, [str(other.path)])
    shutil.rmtree(copy.path / "runs")
    run_tournament(grown, copy.path)
    assert not (copy.path / "runs").exists(), "nothing runs again"
    after = without_cost(copy.path)
    assert {name: after[name] for name in before} == before
    assert {record["contestant"] for name, record in after.items() if name not in before} == {"supcon"}
    assert len(copy.ledger.entries()) == 3 * 6 + 6
    assert "supcon" in write_report(copy)[0].read_text()
    with pytest.raises(UserError, match="did you mean 'supcon'"):
        add_contestants(copy.path, ["supcn"])
    elsewhere = run_tournament(plan(contestants=["margin"], repetitions=1, search={"trials": 0}), tmp_path / "main")
    with pytest.raises(UserError, match="has no table 'main', 'equal samples' for final-main"):
        add_contestants(copy.path, [str(elsewhere.path)])


@pytest.mark.parametrize(("field", "value"), [("model.options", {"width": "slim"})])
def test_results_of_an_unequal_tournament_are_refused_by_the_field(copy, tmp_path, field, value):
    """Real runs under other terms: nothing of them comes in."""
    same = {"contestants": ["supcon"], "repetitions": 1, "search": SEARCH, "arenas": [{"name": "d8"}]}
    other = run_tournament(plan(**same, **{f"terms.{field}": value}), tmp_path / "other")
    before = without_cost(copy.path)
    with pytest.raises(UserError, match=f"^{field} differs: "):
        add_contestants(copy.path, [str(other.path)])
    assert without_cost(copy.path) == before


def test_results_of_other_numerics_are_noticed_before_anything_is_computed(copy, done, monkeypatch, caplog):
    run_tournament(done[0], copy.path)
    assert "numerics version" not in caplog.text
    monkeypatch.setattr("similis.study.tournament.NUMERICS", 99)
    run_tournament(done[0], copy.path)
    assert (
        f"holds results of numerics version {NUMERICS}, and this version of Similis computes version 99" in caplog.text
    )


def test_a_plan_that_was_begun_keeps_its_terms_and_its_repetitions(copy, done):
    for number in (2, 4):
        with pytest.raises(UserError, match=r"repetitions of the plan in .* because a tournament is judged once"):
            run_tournament(done[0].model_copy(update={"repetitions": number}), copy.path)
    changed = plan(contestants=["proxy_anchor", "contrastive", "triplet"], repetitions=3, terms__training__epochs=3)
    with pytest.raises(UserError, match=r"terms\.training\.epochs of the plan in"):
        run_tournament(changed, copy.path)


def test_batches_that_cannot_be_made_are_refused_before_a_folder_is_bound_to_the_plan(tmp_path):
    wrong = plan(terms__training__batch_size=24)
    for call in (lambda: plan_cost(wrong), lambda: run_tournament(wrong, tmp_path / "t")):
        with pytest.raises(UserError, match=r"set training\.batch_size=20"):
            call()
    assert not (tmp_path / "t" / "plan.yaml").exists()


def test_two_drivers_are_refused(done):
    made, folder = done
    with hold_lock(folder.path / "driver.lock"), pytest.raises(UserError, match="another process runs the tournament"):
        run_tournament(made, folder.path)


def test_selection_on_test_is_said_everywhere(tmp_path):
    made = plan(contestants=["contrastive", "pca"], repetitions=1, search=SEARCH, terms__data__protocol="default")
    folder = run_tournament(made, tmp_path / "default")
    text, html, _ = (path.read_text() for path in write_report(folder))
    for page in (text, html):
        assert "Selected on test: epochs and settings were chosen by looking at the test classes" in page
    assert "Results: main, equal samples (selected on test)" in text
    assert "test classes: selected on test" in text
    whys = [entry["why"] for entry in folder.ledger.entries()]
    assert whys == ["selected on test after every epoch"] * (3 + 2), "trials looked, too"


def test_cross_validation(tmp_path):
    folds = {"terms__data__protocol": "cross-validation", "terms__data__folds": 2}
    made = plan(contestants=["contrastive", "whitening"], search={"trials": 0, "epochs": 1}, repetitions=1, **folds)
    folder = run_tournament(made, tmp_path / "folds")
    assert len(folder.records.all("final")) == 2 * 2
    assert len(folder.ledger.entries()) == 4
    assert "contrastive" in write_report(folder)[0].read_text()


def test_without_a_search_nothing_is_tried(tmp_path):
    made = plan(search={"trials": 0, "epochs": 1})
    folder = run_tournament(made, tmp_path / "none")
    assert plan_cost(made).trials == len(folder.records.all("trial")) == 0
    assert [record["settings"] for record in folder.records.all("search")] == [{}] * 4
    assert len(folder.records.all("final")) == plan_cost(made).finals == 4
    assert "Nothing was searched" in write_report(folder)[0].read_text()


WILD = {"loss": "normface", "options": {"scale": 1e39}}  # more than a float holds


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_runs_that_diverge_are_worth_nothing_and_named_after_the_others_are_done(workers, tmp_path, capsys):
    made = plan(contestants=[WILD, "contrastive"], search={"trials": 1, "epochs": 1, "strategy": "random"})
    with pytest.raises(DivergedError, match=r"2 of 4 final runs diverged.*final-main-equal_samples-normface-r0"):
        run_tournament(made, tmp_path / "wild", executor=Executor(workers, on_finished=print_record))
    folder = TournamentFolder(tmp_path / "wild")
    assert {record["contestant"] for record in folder.records.all("final")} == {"contrastive"}
    assert "lost  final-main-equal_samples-normface-r1" in capsys.readouterr().out
    wild, tame = (folder.records.read(f"search-{name}") for name in ("normface-r0", "contrastive-r0"))
    assert (wild["trials"], wild["diverged"], wild["value"], tame["diverged"]) == (3, 3, 0.0, 0)
    assert wild["samples"] == tame["samples"], "a lost trial costs a whole one"
    text = write_report(folder)[0].read_text()
    assert "6 (6 diverged)" in text
    assert "contrastive" in text


def test_closed_forms_and_a_loss_end_to_end(tmp_path):
    made = plan(contestants=["whitening", "pca", "contrastive"], repetitions=3, floors=True, search=SEARCH)
    folder = run_tournament(made, tmp_path / "closed")
    assert plan_cost(made).trials == len(folder.records.all("trial")) == 3 * 3, "closed forms are not searched"
    finals = folder.records.all("final")
    assert {(r["contestant"], r["epochs"] > 0, r["samples"]) for r in finals} == {
        ("whitening", False, 0), ("pca", False, 0), ("contrastive", True, 40),
    }  # fmt: skip
    assert len({(r["spec"]["seed"], r["spec"]["data"]["validation_seed"]) for r in finals}) == 3, "shared"
    text = write_report(folder)[0].read_text()
    for word in ("3 pairs on unseen classes", "| whitening | `model.head` = `whitening` |", "untrained network"):
        assert word in text, word


def test_one_repetition_gives_a_table_and_no_verdict(tmp_path):
    folder = run_tournament(plan(repetitions=1, search={"trials": 0}), tmp_path / "one")
    assert "No verdict: 1 repetition(s) are done, of 2 contestant(s)" in write_report(folder)[0].read_text()


def test_the_report_escapes_what_comes_from_outside(copy):
    """Names of plans and values of settings are free text: no markup of theirs reaches the page."""
    plan_file = copy.path / "plan.yaml"
    plan_file.write_text(plan_file.read_text().replace("name: small", "name: <b>small</b> & sons", 1))
    for path in (copy.path / "records").glob("final-*.json"):
        record = json.loads(path.read_text())
        record["held"]["facts.note"] = "1 | <i>2</i>"
        path.write_text(json.dumps(record))
    markdown, html, _ = (path.read_text() for path in write_report(copy))
    assert "<title>Tournament: &lt;b&gt;small&lt;/b&gt; &amp; sons</title>" in html
    assert "<td><code>1 | &lt;i&gt;2&lt;/i&gt;</code></td>" in html
    assert "| `facts.note` | `1 \\| <i>2</i>` |" in markdown
    assert "<b>" not in html
    assert "<i>" not in html
