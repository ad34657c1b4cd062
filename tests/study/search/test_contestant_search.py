"""The search: budgets, pruning, and going on after a crash without losing or repeating anything."""

import json
import shutil

import optuna
import pytest

from similis.study.plan.jobs import final_jobs, final_spec
from similis.study.records import Records
from similis.study.search.contestant_search import PrunedError, TrialReporter, search_contestant
from similis.study.search.trials import open_journal, open_study, resume_trial
from similis.study.tournament_folder import TournamentFolder
from similis.values import UserError
from tests.study.small import plan, without_cost

WHOLE = {"trials": 1, "epochs": 2, "pruning": False}


def test_every_loss_gets_a_budget_for_what_is_searched_and_the_test_split_stays_closed(tmp_path):
    """The last is what a plug-in without ranges has: its options keep their values, the network's rate is searched."""
    bare = {"loss": "triplet", "options": {"margin": 0.2}}
    made = plan(contestants=["proxy_anchor", "contrastive", bare], search=WHOLE)
    found = [search_contestant(made, each, TournamentFolder(tmp_path)) for each in made.contestants]
    assert [len(record["space"]) for record in found] == [4, 2, 1]
    assert [record["trials"] for record in found] == [5, 3, 2]
    assert [record["samples"] for record in found] == [5 * 2 * 20, 3 * 2 * 20, 2 * 2 * 20]
    assert not (tmp_path / "ledger.jsonl").exists()
    for result in tmp_path.glob("runs/*/result.json"):
        assert json.loads(result.read_text())["test"] == {}
    for record in found:
        best = max(t["value"] or 0.0 for t in Records(tmp_path / "records").all(f"trial-{record['contestant']}"))
        assert record["value"] == best >= record["preset_value"]


def test_contestants_of_a_repetition_share_the_draws_of_the_search_and_begin_with_the_preset(tmp_path):
    made = plan(contestants=["proxy_anchor", "contrastive"], search=WHOLE | {"strategy": "random"})
    folder = TournamentFolder(tmp_path)
    for repetition in range(2):
        for each in made.contestants:
            search_contestant(made, each, folder, repetition)
    trials = folder.records.all("trial")
    presets = [trial for trial in trials if trial["name"].endswith("-preset")]
    assert [trial["settings"] for trial in presets] == [{}] * 4
    rates = {}
    for trial in trials:
        if trial not in presets:
            rates.setdefault(trial["name"].rpartition("-")[0], []).append(trial["settings"]["lr"])
    first, second = rates["trial-proxy_anchor-r0"], rates["trial-proxy_anchor-r1"]
    assert len({*first, *second}) == 8
    assert (rates["trial-contrastive-r0"], rates["trial-contrastive-r1"]) == (first[:2], second[:2])


def test_a_fixed_contestant_is_not_searched(tmp_path):
    fixed = {"loss": "triplet", "fixed": True, "options": {"margin": 0.3}, "lr": 0.002}
    made = plan(contestants=["contrastive", fixed])
    record = search_contestant(made, made.contestants[1], TournamentFolder(tmp_path))
    assert (record["trials"], record["settings"], record["space"]) == (0, {}, {})
    job = next(job for job in final_jobs(made) if job.contestant == "triplet")
    spec = final_spec(made, job, record["settings"])
    assert (spec.objective.options, spec.training.lr) == ({"margin": 0.3}, 0.002)


def test_an_edited_source_is_noticed(tmp_path):
    made, folder = plan(), TournamentFolder(tmp_path)
    record = search_contestant(made, made.contestants[0], folder)
    path = tmp_path / "records" / f"{record['name']}.json"
    path.write_text(json.dumps(record | {"sources": record["sources"] | {"loss": "another"}}))
    with pytest.raises(UserError, match="source of the loss of proxy_anchor was edited"):
        search_contestant(made, made.contestants[0], folder)


def test_a_pruned_trial_costs_less_and_another_takes_its_TournamentFolder(tmp_path):
    """Rates far too high never learn; the budget is counted in samples, so more of such trials fit into it."""
    made = plan(search={"trials": 2, "epochs": 4, "startup": 1, "strategy": "random"})
    record = search_contestant(made, made.contestants[0], TournamentFolder(tmp_path))
    trials = Records(tmp_path / "records").all("trial")
    full = 4 * 20
    assert record["pruned"] == sum(t["state"] == "pruned" for t in trials) > 0
    assert all((t["samples"] < full) == (t["state"] == "pruned") for t in trials if len(t["history"]) < 4)
    assert 8 * full < record["samples"] <= 9 * full
    assert len(trials) > 9


def check_cut(whole, root, name, made):
    """Without its record and that of a trial, a search ends as it did, and makes no run twice."""
    cut = root / name
    shutil.copytree(root / "whole", cut)
    (cut / "records" / "search-proxy_anchor-r0.json").unlink()
    (cut / "records" / f"{name}.json").unlink()
    assert search_contestant(made, made.contestants[0], TournamentFolder(cut)) == whole
    assert without_cost(cut) == without_cost(root / "whole")
    assert len(list(cut.glob("runs/*"))) == len(list((root / "whole").glob("runs/*")))


def test_a_search_cut_anywhere_ends_the_same(tmp_path):
    """Cut after every trial: what is done is read, what was begun is gone on with."""
    made = plan()
    whole = search_contestant(made, made.contestants[0], TournamentFolder(tmp_path / "whole"))
    for name in ("trial-proxy_anchor-r0-preset", "trial-proxy_anchor-r0-000", "trial-proxy_anchor-r0-001"):
        check_cut(whole, tmp_path, name, made)


def test_a_trial_that_was_running_is_resumed_with_its_values(tmp_path):
    journal = tmp_path / "x.journal"
    first = open_study("x", plan().search, journal, "small 0")
    trial = first.ask()
    value = trial.suggest_float("margin", 0.0, 1.0, step=0.1)
    again = open_study("x", plan().search, journal, "small 0")
    found = resume_trial(again, 0)
    assert found.number == 0
    assert found.suggest_float("margin", 0.0, 1.0, step=0.1) == value
    assert resume_trial(again, 1) is None
    assert len(again.trials) == 1


def test_the_length_of_a_run_is_that_of_all_its_epochs():
    reporter = TrialReporter(None, plan())
    reporter.on_stage_start("select", 4, 40, 0)  # 10 steps an epoch
    assert reporter.steps == 40, "what a trial that diverges costs"


def test_an_epoch_is_reported_once():
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.ThresholdPruner(lower=0.3))
    trial = study.ask()
    reporter = TrialReporter(trial, plan())
    reporter.on_validation(1, 0.5, 0.5)
    reporter.on_validation(1, 0.5, 0.5)  # a second report of the same epoch would be a warning, hence an error here
    with pytest.raises(PrunedError):
        reporter.on_validation(2, 0.1, 0.5)
    TrialReporter(trial, plan(search={"pruning": False})).on_validation(3, 0.0, 0.5)


def folded(curves: list[list[float]], study) -> list[int | None]:
    """Trials of three folds with two epochs each, told one after the other; the step at which each was pruned."""
    ends: list[int | None] = []
    for curve in curves:
        trial = study.ask()
        reporter = TrialReporter(trial, cross_validated(epochs=2, startup=2))
        try:
            for step, value in enumerate(curve):
                fold = curve[step // 2 * 2 : step + 1]
                reporter.on_validation(step % 2 + 1, value, max(fold))
                if step % 2:
                    reporter.finished.append(max(fold))
            study.tell(trial.number, sum(reporter.finished) / 3)
            ends.append(None)
        except PrunedError:
            study.tell(trial.number, state=optuna.trial.TrialState.PRUNED)
            ends.append(step + 1)
    return ends


def test_over_folds_the_mean_so_far_is_compared_at_the_same_number_of_samples():
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner(2, 1))
    curves = [
        [0.7, 0.8, 0.3, 0.4, 0.5, 0.6],
        [0.7, 0.8, 0.1, 0.2, 0.5, 0.6],  # below in its second fold, but only one trial is complete
        [0.6, 0.8, 0.1, 0.2, 0.5, 0.6],  # 0.6 against the median 0.7, at the first epoch
        [0.7, 0.8, 0.2, 0.2, 0.9, 0.9],  # the median at step 4 is (0.6 + 0.5) / 2
        [0.7, 0.8, 0.2, 0.35, 0.2, 0.1],  # 1.35 / 3 against the median of 1.7 / 3 and 1.5 / 3, at step 5
        [0.9, 0.9, 0.5, 0.5, 0.5, 0.4],
    ]
    assert folded(curves, study) == [None, None, 1, 4, 5, None]
    assert study.trials[0].intermediate_values == pytest.approx(
        {1: 0.7, 2: 0.8, 3: 1.1 / 2, 4: 1.2 / 2, 5: 1.7 / 3, 6: 1.8 / 3}
    )
    assert study.trials[0].value == pytest.approx(0.6), "the last mean is the value of the trial"


def cross_validated(contestant="proxy_anchor", **search):
    data = {"protocol": "cross-validation", "folds": 3, "source": "synthetic?classes=18&images=6&size=12"}
    search = {"startup": 1, "strategy": "random", **search}
    return plan(contestants=[contestant], search=search, terms__data=data)


def test_under_cross_validation_trials_are_pruned_and_a_cut_search_ends_the_same(tmp_path):
    made = cross_validated(trials=1, epochs=2)
    record = search_contestant(made, made.contestants[0], TournamentFolder(tmp_path / "whole"))
    trials = Records(tmp_path / "whole" / "records").all("trial")
    full = 3 * 2 * 20  # three folds, two epochs, 36 images: one batch of 20
    stopped = [t for t in trials if t["state"] == "pruned"]
    assert stopped
    for trial in trials:
        assert trial["samples"] == (20 * len(trial["history"]) if trial in stopped else full)
        assert (len(trial["addresses"]), trial["value"] is None) == ((0, True) if trial in stopped else (3, False))
    assert any(t["samples"] < full for t in stopped)
    assert 4 * full < record["samples"] <= 5 * full
    for name in [t["name"] for t in (stopped[0], trials[-1])]:
        check_cut(record, tmp_path, name, made)


def test_without_pruning_every_fold_is_run(tmp_path):
    made = cross_validated({"loss": "triplet", "options": {"margin": 0.2}}, trials=1, epochs=1, pruning=False)
    assert search_contestant(made, made.contestants[0], TournamentFolder(tmp_path))["pruned"] == 0
    assert len(list(tmp_path.glob("runs/*/result.json"))) == 2 * 3


def test_a_half_line_of_the_journal_is_dropped(tmp_path):
    file = tmp_path / "x.journal"
    study = optuna.create_study(storage=open_journal(file), study_name="x")
    study.ask()
    with file.open("ab") as journal:
        journal.write(b'{"op_code": 4, "worker')
    again = optuna.load_study(storage=open_journal(file), study_name="x")
    again.ask()
    found = optuna.load_study(storage=open_journal(file), study_name="x")
    assert [trial.number for trial in found.trials] == [0, 1]
