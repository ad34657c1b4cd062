"""What a plan will cost, before anything runs."""

from __future__ import annotations

from typing import NamedTuple

import torch

from similis.data.catalogue import known
from similis.data.manifest import Manifest
from similis.data.splits import Split
from similis.run.checks import check_run
from similis.run.cost import Measured, estimate_seconds, format_duration, measure_step
from similis.run.machine import Machine
from similis.run.parts import divide_data, open_manifest
from similis.run.prepared import Prepared, prepare
from similis.run.spec import RunSpec
from similis.study.plan.jobs import final_jobs, final_spec, participants, trial_spec
from similis.study.plan.schema import Plan
from similis.study.plan.search_space import search_budget
from similis.values import DataError


class PlanCost(NamedTuple):
    """Upper bounds: pruning and patience only make it less.

    Attributes:
        trials: runs of the search, of full length.
        finals: final runs.
        openings: how often models open the test split.
        seconds: of one process or card, by a measured step or the rate given.
        by_arena: the part of each arena; the first has the searches.
        counted: known data sets that are not here, whose images were counted from the catalogue.
    """

    trials: int
    finals: int
    openings: int
    seconds: float
    by_arena: dict[str, float]
    counted: tuple[str, ...] = ()


def plan_cost(plan: Plan, *, data_root: str | None = None, rate: float | None = None) -> PlanCost:
    """Count the runs of a plan, and how long they take.

    Args:
        plan: of a tournament.
        data_root: folder of the known data sets; None for SIMILIS_DATA.
        rate: images that a card trains on in a second, embedding three times as many; None to measure a step here.

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
    counted: list[str] = []
    opened = check_runs(plan, machine, absent=None if rate is None else counted)
    repeated = (1 if plan.search.shared else plan.repetitions) * len(plan.folds)
    searched = [(trial_spec(plan, each, {}, 0), search_budget(each, plan.search)) for each in participants(plan)]
    finals = [(final_spec(plan, job, {}), job.arena) for job in final_jobs(plan)]
    first, home = trial_spec(plan, participants(plan)[0], {}, 0), plan.arenas[0].name
    step = (
        measure_one_thread(prepare(first, machine, opened[home])) if rate is None else Measured(1 / rate, 1 / rate / 3)
    )

    def seconds(spec: RunSpec, arena: str) -> float:
        split = divide_data(opened[arena], spec).split if arena in opened else catalogue_split(spec)
        return estimate_seconds(spec, split, step)

    by_arena = {arena.name: 0.0 for arena in plan.arenas}
    by_arena[home] += repeated * sum(number * seconds(spec, home) for spec, number in searched if number)
    for spec, arena in finals:
        by_arena[arena] += seconds(spec, arena)
    trials = repeated * sum(number for _, number in searched)
    openings = len(finals) + (trials if plan.terms.data.protocol == "default" else 0)
    return PlanCost(trials, len(finals), openings, sum(by_arena.values()), by_arena, tuple(dict.fromkeys(counted)))


def check_runs(plan: Plan, machine: Machine, *, absent: list[str] | None = None) -> dict[str, Manifest]:
    """The data of every arena; a plan of which a run would be refused is refused before a folder is made for it.

    Args:
        plan: of a tournament.
        machine: where the data sets are.
        absent: takes the names of known data sets that are not here; None to raise for the first.
    """
    searched = [trial_spec(plan, each, {}, 0) for each in participants(plan)]
    specs = [(plan.arenas[0].name, spec) for spec in searched]
    specs += [(job.arena, final_spec(plan, job, {})) for job in final_jobs(plan) if not (job.repetition or job.run)]
    opened: dict[str, Manifest] = {}
    for arena, spec in specs:  # contestants of one arena have the same data
        if absent is not None and spec.data.source in absent:
            continue
        if arena not in opened:
            try:
                opened[arena] = open_manifest(spec, machine)
            except DataError:
                if absent is None or spec.data.source not in known:
                    raise
                absent.append(spec.data.source)
                continue
        check_run(spec, divide_data(opened[arena], spec))
    return opened


def catalogue_split(spec: RunSpec) -> Split:
    """As many rows as the official counts of a known data set say; validation has its share of the images."""
    counts, data = known.get(spec.data.source).counts, spec.data
    share = {"default": 0.0, "fixed-validation": data.validation_share, "cross-validation": 1 / data.folds}
    train, test = torch.arange(counts["train"].images), torch.arange(counts["test"].images)
    held = round(len(train) * share[data.protocol])
    return Split(data.source, train[held:], train[:held], test, "")


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
        >>> describe_cost(PlanCost(12, 4, 4, 7200.0, {}), workers=2)
        'cost  12 search runs and 4 final runs, which open the test split 4 times: at most about 60 min on 2 processes'
    """
    where = f"{workers} processes" if workers > 1 else "one process"
    if cost.counted:
        where += f"; images of {', '.join(cost.counted)} counted from the catalogue, because they are not here"
    runs = f"{cost.trials} search runs and {cost.finals} final runs, which open the test split {cost.openings} times"
    return f"cost  {runs}: at most about {format_duration(cost.seconds / workers)} on {where}"
