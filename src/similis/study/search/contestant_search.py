"""Search the settings of one contestant: sequential, resumable, within a budget of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from similis.registry import Range
from similis.run.address import source_fingerprints
from similis.run.run import run
from similis.study.plan.contestant import Contestant
from similis.study.plan.jobs import search_name, trial_spec
from similis.study.plan.schema import Plan
from similis.study.plan.search_space import search_budget, search_space
from similis.study.records import Meter, Record, check_sources, result_record
from similis.study.search.trials import is_below_median, open_study, resume_trial, tell_result
from similis.study.tournament_folder import TournamentFolder
from similis.values import DivergedError

UNTRIED: Record = {"name": None, "settings": {}, "value": None}  # instead of a trial if the budget is 0


class PrunedError(Exception):
    """A trial is below the median of earlier trials; its run stops."""


@dataclass(frozen=True)
class SearchTask:
    """Whose settings are searched, under which plan and in which repetition, and where records and runs are kept."""

    plan: Plan
    contestant: Contestant
    folder: TournamentFolder
    repetition: int = 0

    @property
    def name(self) -> str:
        """The contestant's name, and the repetition's number unless one search serves all."""
        return search_name(self.plan, self.contestant.title, self.repetition)

    @cached_property
    def sources(self) -> dict[str, str]:
        """Part -> hash of the source that computes its trials."""
        return source_fingerprints(trial_spec(self.plan, self.contestant, {}, 0))


class TrialReporter(Meter):
    """Reports the validation R@1 of every epoch to Optuna, once, and stops a run that is to be pruned.

    Over several folds, which run one after the other, an epoch's report is the mean of the best values of the folds so
    far. Trials are compared at the same epoch of the same fold, where they have seen equally many samples.

    Args:
        trial: Optuna's; None reports nothing.
        plan: whether to prune, after how many trials, the epochs of a fold, and the folds that a trial goes through.
    """

    def __init__(self, trial: Any, plan: Plan) -> None:
        super().__init__()
        self.steps = 0  # of a whole run of the fold
        self.trial = trial
        self.plan = plan
        self.finished: list[float] = []

    def on_stage_start(self, stage: str, epochs: int, steps: int, done: int) -> None:  # noqa: ARG002
        """Note the length of the run."""
        self.steps = steps

    def on_validation(self, epoch: int, value: float, best: float) -> None:
        """Report an epoch; one that was reported before a crash stays as it is."""
        if self.trial is None:
            return
        step = len(self.finished) * self.plan.trial_epochs + epoch
        mean = value if len(self.plan.folds) == 1 else (sum(self.finished) + best) / (len(self.finished) + 1)
        known = self.trial.study.trials[self.trial.number].intermediate_values
        if step not in known:
            self.trial.report(mean, step)
        if self.plan.search.pruning and self.should_prune(known.get(step, mean), step):
            raise PrunedError

    def should_prune(self, mean: float, step: int) -> bool:
        """Whether to prune the trial.

        Optuna's rule compares a trial's best report, which over several folds is that of its easiest fold; there, the
        last report is compared with the median of the complete trials.
        """
        if len(self.plan.folds) == 1:
            return bool(self.trial.should_prune())
        return is_below_median(self.trial.study, mean, step, self.plan.search.startup)


def search_contestant(plan: Plan, contestant: Contestant, folder: TournamentFolder, repetition: int = 0) -> Record:
    """Search one contestant and write its record: the chosen settings and their cost.

    The preset is measured first, within the budget. The best validation R@1 wins, the preset on a tie. After a crash,
    the interrupted trial is finished first. With a budget of 0, and for a contestant that is fixed, nothing is measured
    and the preset is chosen.

    Args:
        plan: budget, spaces and terms.
        contestant: whose settings.
        folder: where runs and records are kept.
        repetition: whose draws.
    """
    case = SearchTask(plan, contestant, folder, repetition)
    name = f"search-{case.name}"
    known = folder.records.read(name)
    if known is not None:
        return check_sources(known, case.sources, folder.path)
    space = search_space(contestant, plan.search, plan.terms.training.lr)
    budget = search_budget(contestant, plan.search)
    trials = [measure_settings(case, {}, f"trial-{case.name}-preset")] if budget else []
    if space and budget > 1:
        trials = run_trials(case, space, trials[0], budget)
    best = max(trials, key=lambda trial: -1.0 if trial["value"] is None else trial["value"], default=UNTRIED)
    record = {
        "contestant": case.contestant.title,
        "repetition": repetition,
        "sources": case.sources,
        "settings": best["settings"],
        "chosen": best["name"],
        "values": [trial["value"] for trial in trials],
        "value": best["value"],
        "preset": contestant.start,
        "preset_value": (trials or [UNTRIED])[0]["value"],
        "trials": len(trials),
        "pruned": sum(trial["state"] == "pruned" for trial in trials),
        "diverged": sum(trial["state"] == "diverged" for trial in trials),
        "samples": sum(trial["samples"] for trial in trials),
        "space": {key: [kind.low, kind.high, kind.step, kind.log] for key, kind in space.items()},
    }
    return folder.records.write(name, record)


def run_trials(case: SearchTask, space: Mapping[str, Range], begun: Record, budget: int) -> list[Record]:
    """Ask, run, tell, while a trial of full length still fits into the budget."""
    search, records = case.plan.search, case.folder.records
    journal = case.folder.path / "studies" / f"{case.name}.journal"
    study = open_study(f"{case.plan.name}/{case.name}", search, journal, f"{case.plan.name} {case.repetition}")
    full, per_epoch = begun["samples"], [each // case.plan.trial_epochs for each in begun["fold_samples"]]
    done = [begun]
    while sum(trial["samples"] for trial in done) + full <= budget * full:
        number = len(done) - 1
        name = f"trial-{case.name}-{number:03d}"
        record = records.read(name)
        if record is None:
            trial = resume_trial(study, number) or study.ask()
            settings = {
                key: trial.suggest_float(key, kind.low, kind.high, step=kind.step, log=kind.log)
                for key, kind in space.items()
            }
            record = measure_settings(case, settings, name, trial, per_epoch)
        tell_result(study, number, record)
        done.append(record)
    return done


def measure_settings(
    case: SearchTask, settings: Mapping[str, float], name: str, trial: Any = None, per_epoch: Sequence[int] = ()
) -> Record:
    """Run one setting over all folds; its record, read if it is there.

    Args:
        case: what is searched, and where.
        settings: of the loss.
        name: of the record.
        trial: Optuna's; None for the first preset.
        per_epoch: samples of one epoch of each fold, for a trial that is pruned.
    """
    plan, folder = case.plan, case.folder
    known = folder.records.read(name)
    if known is not None:
        return check_sources(known, case.sources, folder.path)
    meter = TrialReporter(trial, plan)
    specs = [trial_spec(plan, case.contestant, settings, fold, case.repetition) for fold in plan.folds]
    if plan.terms.data.protocol == "default":
        folder.ledger.note(name, why="selected on test after every epoch", contestant=case.contestant.title)
    runs: list[Record] = []
    mining: dict[str, float] = {}
    try:
        for spec in specs:
            result = run(spec, folder.machine, meter)
            runs.append(result_record(result, spec))
            meter.finished.append(result.validation.get("recall@1", 0.0))
            mining = {key: value + mining.get(key, 0.0) for key, value in result.cost.items()}
        value = sum(meter.finished) / len(meter.finished)
        outcome = trial_outcome("complete", value, runs[0]["history"], [each["samples"] for each in runs])
    except PrunedError:
        outcome = pruned_outcome(meter, runs, per_epoch)
        runs = []
    except DivergedError:  # worth nothing, at the cost of a whole trial
        outcome = trial_outcome("diverged", 0.0, [], [meter.steps * specs[0].training.batch_size] * len(specs))
        runs = []
    outcome["addresses"] = [each["address"] for each in runs]
    outcome |= {"repetition": case.repetition, "sources": case.sources}
    record = {"contestant": case.contestant.title, "settings": dict(settings), **outcome, "cost": meter.cost() | mining}
    return folder.records.write(name, record)


def trial_outcome(state: str, value: float | None, history: Sequence[float], samples: Sequence[int]) -> Record:
    """How a trial ended: the mean validation R@1 over the folds, and the samples that each fold has seen."""
    return {
        "state": state, "value": value, "history": list(history), "samples": sum(samples), "fold_samples": list(samples)
    }  # fmt: skip


def pruned_outcome(meter: TrialReporter, runs: list[Record], per_epoch: Sequence[int]) -> Record:
    """The outcome of a pruned trial: its epochs over all folds, those from before a crash included."""
    known = meter.trial.study.trials[meter.trial.number].intermediate_values
    history = [known[step] for step in sorted(known)]
    begun = len(history) - len(runs) * meter.plan.trial_epochs  # epochs of the fold in which it was stopped
    return trial_outcome("pruned", None, history, [*(r["samples"] for r in runs), begun * per_epoch[len(runs)]])
