"""Samplers whose draws depend on whose search it is, the trial's number and the parameter: timing decides nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from similis.registry import Range
from similis.study.plan.schema import SearchPlan
from similis.study.plan.search_space import grid


def build_sampler(name: str, search: SearchPlan, space: Mapping[str, Range], base: Mapping[str, float]) -> BaseSampler:
    """The sampler of a plan for the search of that name; ``base`` holds the values of the first preset."""
    if search.strategy == "one-at-a-time":
        return OneAtATime(space, base, search.trials)
    return SeededByTrial(name, search)


class SeededByTrial(RandomSampler):
    """Another sampler, made afresh for every draw with a seed of its own.

    A process that was killed between two parameters of a trial draws the second one as if it had not been killed.
    Two contestants, or two repetitions of one, share no draw: ``name`` tells whose search this is.
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


class OneAtATime(RandomSampler):
    """The thesis' grid: one parameter after the other, each at its best value before the next begins.

    Each of P parameters gets an equal share of the trials, spread over its range.
    """

    def __init__(self, space: Mapping[str, Range], base: Mapping[str, float], trials: int) -> None:
        super().__init__()
        share = max(1, (trials - 1) // max(len(space), 1))
        self.base = dict(base)
        self.steps = [(name, value) for name, kind in space.items() for value in grid(kind, share)]

    def step(self, number: int) -> tuple[str, float]:
        """Parameter and value of a trial; what the budget leaves after the grid repeats its last step."""
        return self.steps[min(number, len(self.steps) - 1)]

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The trial's own value for its parameter, for the others the best or first value."""
        name, value = self.step(trial.number)
        if param_name == name:
            return value
        order = list(dict.fromkeys(step[0] for step in self.steps))
        if order.index(param_name) > order.index(name):
            return nearest_grid_value(self.base[param_name], param_distribution)
        done = [
            t for t in study.get_trials(deepcopy=False) if t.state is TrialState.COMPLETE and t.number < trial.number
        ]
        own = [t for t in done if self.step(t.number)[0] == param_name]
        best = max(own, key=lambda t: (t.value, -t.number), default=None)
        return (
            nearest_grid_value(self.base[param_name], param_distribution) if best is None else best.params[param_name]
        )


def nearest_grid_value(value: float, kind: BaseDistribution) -> float:
    """The value of the distribution's grid that lies nearest."""
    assert isinstance(kind, FloatDistribution)
    inside = min(max(value, kind.low), kind.high)
    return inside if kind.step is None else round(kind.low + round((inside - kind.low) / kind.step) * kind.step, 12)
