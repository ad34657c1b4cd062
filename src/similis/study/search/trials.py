"""Trials in Optuna: open a study, resume a trial, tell its result, importance of settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import optuna

from similis.registry import Range
from similis.study.plan.schema import SearchPlan
from similis.study.records import Record
from similis.study.search.trial_sampler import build_sampler
from similis.study.search.trial_storage import open_storage


def open_study(
    name: str, search: SearchPlan, journal: Path, *, space: Mapping[str, Range], base: Mapping[str, float]
) -> Any:
    """The Optuna study of that name, new or as it was left.

    Args:
        name: of the study; one for each contestant and repetition.
        search: sampler, pruner and storage.
        journal: the file that keeps the trials where the plan names no database.
        space: what is searched.
        base: the values of the first preset.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(
        storage=open_storage(search.storage, journal),
        # whose search it is, whatever the plan is called: another plan with this contestant finds the same runs
        sampler=build_sampler(name.rpartition("/")[2], search, space, base),
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
    if study.get_trials(deepcopy=False)[number].state.is_finished():
        return
    if record["state"] == "pruned":
        study.tell(number, state=optuna.trial.TrialState.PRUNED)
    else:
        study.tell(number, record["value"])


def is_below_median(study: Any, value: float, step: int, startup: int) -> bool:
    """Whether a value lies below the median of the complete trials at the same step, once there are enough of them."""
    done = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    others = [trial.intermediate_values[step] for trial in done if step in trial.intermediate_values]
    return len(done) >= startup and bool(others) and value < median(others)


def importances(study: Any, space: Mapping[str, Range]) -> Mapping[str, float]:
    """Share of each setting in the spread of validation R@1 (PED-ANOVA); empty for too few trials."""
    done = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    if len(done) < 4 or len({trial.value for trial in done}) < 2:
        return {}
    found: Mapping[str, float] = optuna.importance.get_param_importances(
        study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
    )
    return {key: round(float(found[key]), 6) for key in space if key in found}
