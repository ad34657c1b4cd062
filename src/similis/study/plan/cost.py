"""What a plan will cost, before anything runs."""

from __future__ import annotations

from typing import NamedTuple

import torch

from similis.data.manifest import Manifest
from similis.run.checks import check_run
from similis.run.cost import Measured, estimate_seconds, format_duration, measure_step
from similis.run.machine import Machine
from similis.run.parts import divide_data, open_manifest
from similis.run.prepared import Prepared, prepare
from similis.study.plan.jobs import final_jobs, final_spec, participants, trial_spec
from similis.study.plan.schema import Plan
from similis.study.plan.search_space import search_budget


class PlanCost(NamedTuple):
    """Upper bounds: pruning and patience only make it less.

    Attributes:
        trials: runs of the search, of full length.
        finals: final runs.
        openings: how often models open the test split.
        seconds: of one process, by a measured step.
    """

    trials: int
    finals: int
    openings: int
    seconds: float


def plan_cost(plan: Plan, *, data_root: str | None = None) -> PlanCost:
    """Count the runs of a plan and measure a step of it.

    Example:
        >>> from similis.study.plan.plan_file import parse_plan
        >>> plan_cost(parse_plan({
        ...     "name": "small", "sampler": "own", "contestants": ["triplet", "proxy_anchor"], "repetitions": 2,
        ...     "terms": {"data": {"source": "synthetic?classes=8&images=6&size=16"},
        ...               "model": {"backbone": "small_conv", "weights": None, "dim": 8},
        ...               "training": {"epochs": 2, "batch_size": 10}},
        ...     "search": {"trials": 3, "epochs": 1, "startup": 1}}))[:3]
        (40, 4, 4)
    """
    machine = Machine(data_root=data_root)
    opened = check_runs(plan, machine)
    repeated = (1 if plan.search.shared else plan.repetitions) * len(plan.folds)
    searched = [(trial_spec(plan, each, {}, 0), search_budget(each, plan.search)) for each in participants(plan)]
    finals = [(final_spec(plan, job, {}), job.arena) for job in final_jobs(plan)]
    first, home = trial_spec(plan, participants(plan)[0], {}, 0), opened[plan.arenas[0].name]
    each = measure_one_thread(prepare(first, machine, home))
    seconds = repeated * sum(n * estimate_seconds(s, divide_data(home, s).split, each) for s, n in searched)
    seconds += sum(estimate_seconds(s, divide_data(opened[arena], s).split, each) for s, arena in finals)
    trials = repeated * sum(number for _, number in searched)
    openings = len(finals) + (trials if plan.terms.data.protocol == "default" else 0)
    return PlanCost(trials, len(finals), openings, seconds)


def check_runs(plan: Plan, machine: Machine) -> dict[str, Manifest]:
    """The data of every arena; a plan of which a run would be refused is refused before a folder is made for it."""
    searched = [trial_spec(plan, each, {}, 0) for each in participants(plan)]
    specs = [(plan.arenas[0].name, spec) for spec in searched]
    specs += [(job.arena, final_spec(plan, job, {})) for job in final_jobs(plan) if not (job.repetition or job.run)]
    opened: dict[str, Manifest] = {}
    for arena, spec in specs:  # contestants of one arena have the same data
        if arena not in opened:
            opened[arena] = open_manifest(spec, machine)
        check_run(spec, divide_data(opened[arena], spec))
    return opened


def measure_one_thread(run: Prepared) -> Measured:
    """A step of a trial with one thread, as the runs of a tournament have."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return measure_step(run)
    finally:
        torch.set_num_threads(before)


def describe_cost(cost: PlanCost, workers: int = 1) -> str:
    """The cost in one line.

    Example:
        >>> describe_cost(PlanCost(12, 4, 4, 7200.0), workers=2)
        'cost  12 search runs and 4 final runs, which open the test split 4 times: at most about 60 min on 2 processes'
    """
    where = f"{workers} processes" if workers > 1 else "one process"
    runs = f"{cost.trials} search runs and {cost.finals} final runs, which open the test split {cost.openings} times"
    return f"cost  {runs}: at most about {format_duration(cost.seconds / workers)} on {where}"
