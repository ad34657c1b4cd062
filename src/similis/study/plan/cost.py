"""What a plan will cost, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from similis.data.manifest import Manifest
from similis.run.checks import check_run
from similis.run.cost import ImageSeconds, format_duration, time_images
from similis.run.machine import Machine
from similis.run.parts import Source, divide_data, open_manifest
from similis.run.spec import RunSpec
from similis.study.plan.jobs import final_jobs, final_spec, participants, trial_spec
from similis.study.plan.schema import Plan


@dataclass(frozen=True)
class PlanCost:
    """Upper bounds: pruning and patience only make it less.

    Attributes:
        trials: runs of the search, of full length.
        finals: final runs.
        openings: how often models open the test split.
        search_samples, final_samples: images that pass through the network in training.
        evaluated: images embedded for validation, test and offline mining.
        image_seconds: measured seconds to load and train on an image, with one thread.
        embed_seconds: to load and embed it.
    """

    trials: int
    finals: int
    openings: int
    search_samples: int
    final_samples: int
    evaluated: int
    image_seconds: float
    embed_seconds: float

    @property
    def seconds(self) -> float:
        """Estimate for one process."""
        return (self.search_samples + self.final_samples) * self.image_seconds + self.evaluated * self.embed_seconds


def plan_cost(plan: Plan, *, data_root: str | None = None) -> PlanCost:
    """Count the runs and samples of a plan and time a few images of it.

    Example:
        >>> from similis.study.plan.plan_file import parse_plan
        >>> cost = plan_cost(parse_plan({
        ...     "name": "small", "sampler": "own", "contestants": ["triplet", "proxy_anchor"], "repetitions": 2,
        ...     "terms": {"data": {"source": "synthetic?classes=8&images=6&size=16"},
        ...               "model": {"backbone": "small_conv", "weights": None, "dim": 8},
        ...               "training": {"epochs": 2, "batch_size": 10}},
        ...     "search": {"trials": 3, "epochs": 1, "startup": 1}}))
        >>> cost.trials, cost.finals, cost.openings, cost.search_samples
        (12, 4, 4, 120)
    """
    machine = Machine(data_root=data_root)
    opened = check_runs(plan, machine)
    searched = [trial_spec(plan, each, {}, 0) for each in participants(plan) if not each.fixed]
    repeated = (1 if plan.search.shared else plan.repetitions) * plan.search.trials * len(plan.folds)
    finals = [(final_spec(plan, job, {}), job.arena) for job in final_jobs(plan)]
    first = trial_spec(plan, participants(plan)[0], {}, 0)
    source = divide_data(opened[plan.arenas[0].name], first)
    timed, counts = time_one_thread(first, machine, source), count_images(source)
    own = [(spec, count_images(divide_data(opened[arena], spec))) for spec, arena in finals]
    trials = repeated * len(searched)
    return PlanCost(
        trials=trials,
        finals=len(finals),
        openings=len(finals) + (trials if plan.terms.data.protocol == "default" else 0),
        search_samples=repeated * sum(training_samples(s, counts, s.training.epochs, 0) for s in searched),
        final_samples=sum(training_samples(s, c, s.training.epochs, s.training.epochs) for s, c in own),
        evaluated=repeated * sum(embedded_images(s, counts) for s in searched)
        + sum(embedded_images(s, c) for s, c in own),
        image_seconds=timed.step + timed.reload,
        embed_seconds=timed.embed + timed.reload,
    )


def check_runs(plan: Plan, machine: Machine) -> dict[str, Manifest]:
    """The data of every arena; a plan of which a run would be refused is refused before a folder is made for it."""
    searched = [trial_spec(plan, each, {}, 0) for each in participants(plan)]
    specs = [(plan.arenas[0].name, spec) for spec in searched]
    specs += [(job.arena, final_spec(plan, job, {})) for job in final_jobs(plan) if not (job.repetition or job.run)]
    opened: dict[str, Manifest] = {}
    for arena, spec in specs:  # of one arena contestants have the same data, each with its own validation classes
        if arena not in opened:
            opened[arena] = open_manifest(spec, machine)
        check_run(spec, divide_data(opened[arena], spec))
    return opened


def count_images(source: Source) -> dict[str, int]:
    """Images of each part of a split."""
    return {part: len(getattr(source.split, part)) for part in ("train", "validation", "test")}


def training_samples(spec: RunSpec, images: Mapping[str, int], epochs: int, refit_epochs: int) -> int:
    """Images that pass through the network in training: whole batches, the refit on all training classes included."""
    size = spec.training.batch_size
    refit = epoch_samples(images["train"] + images["validation"], size) if refits(spec) else 0
    return epochs * epoch_samples(images["train"], size) + refit_epochs * refit


def epoch_samples(images: int, batch_size: int) -> int:
    """Images of an epoch: whole batches only."""
    return images // batch_size * batch_size


def refits(spec: RunSpec) -> bool:
    """Whether a run trains again on all training classes after validation has chosen its length."""
    return spec.training.refit and spec.data.protocol == "fixed-validation"


def embedded_images(spec: RunSpec, images: Mapping[str, int]) -> int:
    """Images that a run embeds at most: to choose its epoch, to test, and in offline mining, the refit included."""
    t = spec.training
    choosing = t.epochs * (images["validation"] or images["test"])  # without validation, those that test
    tested = images["test"] if spec.evaluation.test else 0
    mined = images["train"] + (images["train"] + images["validation"] if refits(spec) else 0)
    return choosing + tested + (math.ceil(t.epochs / t.mining.every_epochs) * mined if t.sampler == "mined" else 0)


def time_one_thread(spec: RunSpec, machine: Machine, source: Source) -> ImageSeconds:
    """Seconds of one image of a trial, with one thread, as the runs of a tournament have."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return time_images(spec, machine, source)
    finally:
        torch.set_num_threads(before)


def describe_cost(cost: PlanCost, workers: int = 1) -> list[tuple[str, str]]:
    """The cost as lines of a table."""
    return [
        ("search runs", f"{cost.trials}"),
        ("final runs", f"{cost.finals}"),
        ("openings of the test split", f"{cost.openings}"),
        ("training images, search", f"{cost.search_samples:,}"),
        ("training images, finals (at most)", f"{cost.final_samples:,}"),
        ("images embedded to validate, test and mine", f"{cost.evaluated:,}"),
        ("one training image", f"{1000 * cost.image_seconds:.2f} ms on one thread"),
        (f"time on {workers} process{'es' if workers > 1 else ''}", f"about {format_duration(cost.seconds / workers)}"),
    ]
