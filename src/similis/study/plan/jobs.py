"""The runs that a plan asks for, as specifications and names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from similis.registry import losses
from similis.run.spec import ObjectiveSpec, RunSpec, parse_spec, replace_values
from similis.study.plan.contestant import Contestant
from similis.study.plan.schema import Plan, PlanTerms
from similis.study.plan.search_space import NETWORK_RATE, RATE

Settings = Mapping[str, float]


@dataclass(frozen=True)
class FinalJob:
    """One final run: a contestant with its chosen settings, in one arena, at one length, of one repetition and fold.

    ``run`` counts the runs of a repetition that share its settings and differ in their seed.
    """

    contestant: str
    arena: str
    length: str
    repetition: int
    run: int
    fold: int

    @property
    def name(self) -> str:
        """The name of its record."""
        more = (f"-run{self.run}" if self.run else "") + (f"-fold{self.fold}" if self.fold else "")
        return f"final-{self.arena}-{self.length.replace(' ', '_')}-{self.contestant}-r{self.repetition}{more}"


def final_jobs(plan: Plan) -> Iterator[FinalJob]:
    """All final runs, repetitions outermost, so that an interrupted tournament has complete rounds."""
    for repetition in range(plan.repetitions):
        for arena in plan.arenas:
            for length in arena.lengths or plan.lengths:
                for contestant in plan.members(arena):
                    for run in range(plan.runs_per_repetition):
                        for fold in plan.folds:
                            yield FinalJob(contestant.title, arena.name, length, repetition, run, fold)


def search_name(plan: Plan, title: str, repetition: int) -> str:
    """Whose search, and of which repetition unless one serves all; records and files are named by it."""
    return title if plan.search.shared else f"{title}-r{repetition}"


def draw_seed(plan: Plan, *words: object) -> int:
    """A seed that no other repetition, run or plan shares; the contestants of a repetition share it.

    Example:
        >>> from similis.study.plan.plan_file import parse_plan
        >>> plan = parse_plan({"name": "x", "sampler": "own", "terms": {"data": {"source": "synthetic"}},
        ...                    "contestants": ["triplet"]})
        >>> draw_seed(plan, 0) == draw_seed(plan, 0) != draw_seed(plan, 1)
        True
    """
    text = " ".join(map(str, (plan.name, plan.search.seed, *words)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def participants(plan: Plan) -> list[Contestant]:
    """Contestants that take part in any arena."""
    taking = {each.title for arena in plan.arenas for each in plan.members(arena)}
    return [each for each in plan.contestants if each.title in taking]


def trial_spec(plan: Plan, contestant: Contestant, settings: Settings, fold: int, repetition: int = 0) -> RunSpec:
    """The specification of one trial: the first arena, short, without refit, the test split locked."""
    values = base_values(plan, plan.arena_terms(plan.arenas[0]), contestant, settings)
    values["training"] |= {"epochs": plan.trial_epochs, "refit": False, "patience": None}
    values["evaluation"] |= {"test": False, "untouched": False}
    values["data"] |= {"fold": fold, "validation_seed": validation_seed(plan, repetition)}
    return parse_spec(values | {"seed": draw_seed(plan, repetition)})


def final_spec(plan: Plan, job: FinalJob, settings: Settings) -> RunSpec:
    """The specification of one final run; it opens the test split when it is finished and selected."""
    values = base_values(plan, plan.arena_terms(plan.arena(job.arena)), plan.contestant(job.contestant), settings)
    length = plan.lengths[job.length]
    if length.epochs is not None:
        values["training"]["epochs"] = length.epochs
    values["training"]["patience"] = length.patience
    values["evaluation"] |= {"test": True, "untouched": False}
    values["data"] |= {"fold": job.fold, "validation_seed": validation_seed(plan, job.repetition)}
    more = (job.run,) if job.run else ()  # the first run has the seed of the trials that chose its settings
    return parse_spec(values | {"seed": draw_seed(plan, job.repetition, *more)})


def validation_seed(plan: Plan, repetition: int) -> int | None:
    """The seed of a repetition's validation classes; None where one search serves all, or nothing validates."""
    if plan.search.shared or plan.terms.data.protocol == "default":
        return None
    return draw_seed(plan, repetition)


def base_values(plan: Plan, terms: PlanTerms, contestant: Contestant, settings: Settings) -> dict[str, Any]:
    """The terms with a contestant's loss, its settings and its declared extras."""
    values = terms.model_dump(mode="json")
    own = {name: value for name, value in settings.items() if name not in (RATE, NETWORK_RATE)}
    values["objective"] = {
        "loss": contestant.loss,
        "preset": contestant.start,
        "options": {**contestant.options, **own},
        "miner": contestant.miner,
    }
    values["training"]["loss_multiplier"] = settings.get(RATE, contestant.loss_multiplier)
    values["training"]["lr"] = settings.get(NETWORK_RATE, contestant.lr or terms.training.lr)
    return replace_values(values, plan.declared_values(contestant))


def compared_values(plan: Plan, job: FinalJob, spec: RunSpec) -> dict[str, Any]:
    """The settings that must be equal within a table: declared extras and the searched rate are reset to the terms."""
    terms = plan.arena_terms(plan.arena(job.arena)).model_dump(mode="json")
    terms["objective"] = ObjectiveSpec().model_dump(mode="json")
    if plan.sampler in ("own", "crossed"):
        terms["training"]["sampler"] = plan.sampler
    values = spec.model_dump(mode="json")
    back: dict[str, Any] = {"training.lr": terms["training"]["lr"]}
    for field, value in plan.declared_values(plan.contestant(job.contestant)).items():
        section, _, name = field.partition(".")
        if values[section][name] == value:
            back[field] = terms[section][name]
    return replace_values(values, back)


def first_settings(contestant: Contestant, names: Mapping[str, object], lr: float) -> dict[str, float]:
    """The first preset's values of the searched settings; the loss's defaults where the preset sets none."""
    entry = losses.get(contestant.loss)
    preset = entry.presets.get(contestant.start or "")
    given: dict[str, Any] = {**entry.options, **(preset.options if preset else {})}
    given |= {RATE: contestant.first_multiplier, NETWORK_RATE: lr}
    return {name: float(given[name]) for name in names if isinstance(given.get(name), int | float)}
