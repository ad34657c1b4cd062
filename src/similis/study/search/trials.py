"""Trials in Optuna: where they are kept, how they are drawn, resumed and told."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from statistics import median
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import FrozenTrial

from similis.study.plan.schema import SearchPlan
from similis.study.records import Record
from similis.training.file_lock import drop_partial_line


def open_study(name: str, search: SearchPlan, journal: Path, draws: str) -> Any:
    """The Optuna study of that name, new or as it was left.

    Args:
        name: of the study; one for each contestant and repetition.
        search: sampler and pruner.
        journal: the file that keeps the trials.
        draws: whose random draws these are: the plan's and the repetition's, so that contestants share them.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(
        storage=open_journal(journal),
        sampler=SeededByTrial(draws, search),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=search.startup, n_warmup_steps=1),
        study_name=name,
        direction="maximize",
        load_if_exists=True,
    )


def resume_trial(study: Any, number: int) -> Any:
    """The trial of that number if it exists, running or ended; None if it is new."""
    known = [trial for trial in study.get_trials(deepcopy=False) if trial.number == number]
    return optuna.trial.Trial(study, known[0]._trial_id) if known else None


def tell_result(study: Any, number: int, record: Record) -> None:
    """Tell Optuna how a trial ended, unless that happened before a crash."""
    state = optuna.trial.TrialState.PRUNED if record["state"] == "pruned" else None
    study.tell(number, record["value"], state=state, skip_if_finished=True)


def is_below_median(study: Any, value: float, step: int, startup: int) -> bool:
    """Whether a value lies below the median of the complete trials at the same step, once there are enough of them."""
    done = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    others = [trial.intermediate_values[step] for trial in done if step in trial.intermediate_values]
    return len(done) >= startup and bool(others) and value < median(others)


def open_journal(file: Path) -> JournalStorage:
    """Where Optuna keeps the trials of a search: a file beside the runs."""
    file.parent.mkdir(parents=True, exist_ok=True)
    drop_partial_line(file)
    lock: Any = threading.Lock()  # the search holds a file of its own, so this process alone writes
    return JournalStorage(JournalFileBackend(str(file), lock_obj=lock))


class SeededByTrial(RandomSampler):
    """Another sampler, made afresh for every draw with a seed of its own.

    A process that was killed between two parameters of a trial draws the second one as if it had not been killed.
    Two plans, or two repetitions of one, share no draw: ``name`` tells whose draws these are.
    """

    def __init__(self, name: str, search: SearchPlan) -> None:
        super().__init__()
        self.name = name
        self.search = search

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw one parameter."""
        words = f"{self.search.seed} {self.name} {trial.number} {param_name}"
        seed = int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big")
        own: BaseSampler = RandomSampler(seed=seed)
        if self.search.strategy == "tpe":
            own = TPESampler(seed=seed, n_startup_trials=self.search.startup, multivariate=False, constant_liar=False)
        return own.sample_independent(study, trial, param_name, param_distribution)
