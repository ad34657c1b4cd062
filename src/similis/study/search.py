"""Search the settings of one contestant: sequential, resumable, within a budget of samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from similis.registry import Range
from similis.run.machine import Machine
from similis.run.run import run
from similis.study.jobs import first_settings, trial_spec
from similis.study.ledger import Ledger
from similis.study.plan import Contestant, Plan
from similis.study.records import Meter, Record, Records, result_record
from similis.study.spaces import space_of


class PrunedError(Exception):
    """A trial is below the median of those before it; its run is left where it stands."""


@dataclass(frozen=True)
class Place:
    """Where a tournament keeps its things."""

    machine: Machine
    records: Records
    ledger: Ledger


class Reporter(Meter):
    """Tells Optuna the validation R@1 after every epoch, once, and stops a run that is to be pruned."""

    def __init__(self, trial: Any, prune: bool) -> None:
        super().__init__()
        self.trial = trial
        self.prune = prune

    def validated(self, epoch: int, value: float, best: float) -> None:
        """Report an epoch; one that was reported before a crash stays as it is."""
        if self.trial is None:
            return
        known = self.trial.study.trials[self.trial.number].intermediate_values
        if epoch not in known:
            self.trial.report(value, epoch)
        if self.prune and self.trial.should_prune():
            raise PrunedError


def search_contestant(plan: Plan, contestant: Contestant, place: Place) -> Record:
    """Search one contestant and leave its record: the chosen settings and what they cost.

    The first preset is measured first and counts in the budget; the best validation R@1 wins, the
    preset on a tie. A trial that was running when the process died is run to its end first.
    """
    name = f"search-{contestant.title}"
    known = place.records.read(name)
    if known is not None:
        return known
    space = space_of(contestant, plan.search)
    base = first_settings(contestant, space)
    begun = measured(plan, contestant, place, {}, f"trial-{contestant.title}-preset")
    trials = [begun]
    importance: Mapping[str, float] = {}
    if space and plan.search.trials > 1:
        trials, importance = optimised(plan, contestant, place, space, base, begun)
    best = max(trials, key=lambda trial: -1.0 if trial["value"] is None else trial["value"])
    record = {
        "contestant": contestant.title,
        "settings": best["settings"],
        "chosen": best["name"],
        "value": best["value"],
        "preset": contestant.start,
        "preset_value": begun["value"],
        "trials": len(trials),
        "pruned": sum(trial["state"] == "pruned" for trial in trials),
        "samples": sum(trial["samples"] for trial in trials),
        "importance": dict(importance),
        "space": {key: [kind.low, kind.high, kind.step, kind.log] for key, kind in space.items()},
    }
    place.records.write(name, record)
    found = place.records.read(name)
    assert found is not None
    return found


def optimised(
    plan: Plan, contestant: Contestant, place: Place, space: Mapping[str, Range], base: dict[str, float], begun: Record
) -> tuple[list[Record], Mapping[str, float]]:
    """Ask, run, tell, while a trial of full length still fits into the budget."""
    from similis.study.sampler import distribution

    study = open_study(plan, contestant, place, space, base)
    kinds = {key: distribution(kind) for key, kind in space.items()}
    full = begun["samples"]
    budget = plan.search.trials * full
    done = [begun]
    while sum(trial["samples"] for trial in done) + full <= budget:
        number = len(done) - 1
        name = f"trial-{contestant.title}-{number:03d}"
        record = place.records.read(name)
        if record is None:
            trial = resumed(study, number) or study.ask()
            settings = {key: trial.suggest_float(key, k.low, k.high, step=k.step, log=k.log) for key, k in kinds.items()}
            record = measured(plan, contestant, place, settings, name, trial, full // plan.search.epochs)
        tell(study, number, record)
        done.append(record)
    return done, importances(study, space)


def open_study(plan: Plan, contestant: Contestant, place: Place, space: Mapping[str, Range], base: dict[str, float]) -> Any:
    """The Optuna study of one contestant, new or as it was left."""
    from optuna import create_study
    from optuna.pruners import MedianPruner

    from similis.study.extras import optuna
    from similis.study.sampler import build_sampler
    from similis.study.storage import open_storage

    optuna()
    journal = place.records.folder.parent / "studies" / f"{contestant.title}.journal"
    return create_study(
        storage=open_storage(plan.search.storage, journal),
        sampler=build_sampler(plan.search, space, base),
        pruner=MedianPruner(n_startup_trials=plan.search.startup, n_warmup_steps=1),
        study_name=f"{plan.name}/{contestant.title}",
        direction="maximize",
        load_if_exists=True,
    )


def resumed(study: Any, number: int) -> Any:
    """The trial of that number if it was begun before, still open or ended; None if it is new."""
    from optuna.trial import Trial

    known = [trial for trial in study.get_trials(deepcopy=False) if trial.number == number]
    return Trial(study, known[0]._trial_id) if known else None


def tell(study: Any, number: int, record: Record) -> None:
    """Tell a trial's end, unless it was told before a crash."""
    from optuna.trial import TrialState

    if study.get_trials(deepcopy=False)[number].state.is_finished():
        return
    if record["state"] == "pruned":
        study.tell(number, state=TrialState.PRUNED)
    else:
        study.tell(number, record["value"])


def measured(
    plan: Plan,
    contestant: Contestant,
    place: Place,
    settings: Mapping[str, float],
    name: str,
    trial: Any = None,
    per_epoch: int = 0,
) -> Record:
    """Run one setting over all folds; its record, read if it is there.

    Args:
        plan, contestant, place: what is searched, and where.
        settings: of the loss.
        name: of the record.
        trial: Optuna's; None for the first preset.
        per_epoch: samples of one epoch, for a trial that is pruned.
    """
    known = place.records.read(name)
    if known is not None:
        return known
    alone = len(plan.folds) == 1  # over several folds there is no single curve to prune by
    meter = Reporter(trial if alone else None, plan.search.pruning)
    if plan.terms.data.protocol == "default":
        place.ledger.note(name, why="selected on test after every epoch", contestant=contestant.title)
    runs: list[Record] = []
    try:
        for fold in plan.folds:
            runs.append(result_record(run(trial_spec(plan, contestant, settings, fold), place.machine, meter)))
        outcome = complete(runs)
    except PrunedError:
        outcome = pruned(meter, per_epoch)
    record = {"contestant": contestant.title, "settings": dict(settings), **outcome, "cost": meter.cost()}
    place.records.write(name, record)
    return {"name": name, **record}


def complete(runs: list[Record]) -> Record:
    """What a whole trial says: the mean validation R@1 over the folds."""
    values = [each["validation"].get("recall@1", 0.0) for each in runs]
    return {
        "state": "complete",
        "value": sum(values) / len(values),
        "history": runs[0]["history"],
        "samples": sum(each["samples"] for each in runs),
        "addresses": [each["address"] for each in runs],
    }


def pruned(meter: Reporter, per_epoch: int) -> Record:
    """What a pruned trial says: its epochs, those from before a crash included."""
    known = meter.trial.study.trials[meter.trial.number].intermediate_values
    history = [known[epoch] for epoch in sorted(known)]
    return {"state": "pruned", "value": None, "history": history, "samples": per_epoch * len(history), "addresses": []}


def importances(study: Any, space: Mapping[str, Range]) -> Mapping[str, float]:
    """Share of each setting in the spread of validation R@1 (PED-ANOVA); empty for too few trials."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
    from optuna.trial import TrialState

    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(done) < 4 or len({trial.value for trial in done}) < 2:
        return {}
    found: Mapping[str, float] = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    return {key: round(float(found[key]), 6) for key in space if key in found}
