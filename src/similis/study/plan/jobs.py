"""The runs that a plan asks for, as specifications and names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from similis.registry import losses
from similis.run.spec import ObjectiveSpec, RunSpec, parse_spec, replace_values
from similis.study.plan.schema import Contestant, Plan, PlanTerms
from similis.study.plan.search_space import RATE

Settings = Mapping[str, float]


@dataclass(frozen=True)
class FinalJob:
    """One final run: a contestant with its chosen settings, in one arena, at one length, with one seed and fold."""

    contestant: str
    arena: str
    length: str
    seed: int
    fold: int

    @property
    def name(self) -> str:
        """The name of its record."""
        fold = f"-fold{self.fold}" if self.fold else ""
        return f"final-{self.arena}-{self.length.replace(' ', '_')}-{self.contestant}-seed{self.seed}{fold}"


def final_jobs(plan: Plan) -> Iterator[FinalJob]:
    """All final runs, seeds outermost, so that an interrupted tournament has complete rounds."""
    for seed in plan.seeds:
        for arena in plan.arenas:
            for length in arena.lengths or plan.lengths:
                for contestant in plan.members(arena):
                    for fold in plan.folds:
                        yield FinalJob(contestant.title, arena.name, length, seed, fold)


def participants(plan: Plan) -> list[Contestant]:
    """Contestants that take part in any arena."""
    taking = {each.title for arena in plan.arenas for each in plan.members(arena)}
    return [each for each in plan.contestants if each.title in taking]


def trial_spec(plan: Plan, contestant: Contestant, settings: Settings, fold: int) -> RunSpec:
    """The specification of one trial: the first arena, short, without refit, the test split locked."""
    values = base_values(plan.arena_terms(plan.arenas[0]), contestant, settings)
    values["training"] |= {"epochs": plan.search.epochs, "refit": False, "patience": None}
    values["evaluation"] |= {"test": False, "untouched": False}
    values["data"]["fold"] = fold
    return parse_spec(values | {"seed": plan.search.seed})


def final_spec(plan: Plan, job: FinalJob, settings: Settings) -> RunSpec:
    """The specification of one final run; it opens the test split when it is finished and selected."""
    values = base_values(plan.arena_terms(plan.arena(job.arena)), plan.contestant(job.contestant), settings)
    length = plan.lengths[job.length]
    if length.epochs is not None:
        values["training"]["epochs"] = length.epochs
    values["training"]["patience"] = length.patience
    values["evaluation"] |= {"test": True, "untouched": False}
    values["data"]["fold"] = job.fold
    return parse_spec(values | {"seed": job.seed})


def base_values(terms: PlanTerms, contestant: Contestant, settings: Settings) -> dict[str, Any]:
    """The terms with a contestant's loss, its settings and its declared extras."""
    values = terms.model_dump(mode="json")
    own = {name: value for name, value in settings.items() if name != RATE}
    values["objective"] = {
        "loss": contestant.loss,
        "preset": contestant.start,
        "options": {**contestant.options, **own},
        "miner": contestant.miner,
    }
    values["training"]["loss_multiplier"] = settings.get(RATE, contestant.loss_multiplier)
    return replace_values(values, contestant.declared)


def compared_values(plan: Plan, job: FinalJob, spec: RunSpec) -> dict[str, Any]:
    """The settings by which a final run is compared: declared extras are reset to the terms.

    Declared extras are part of the contestant's title; any other difference stays and makes the table fail.
    """
    terms = plan.arena_terms(plan.arena(job.arena)).model_dump(mode="json")
    terms["objective"] = ObjectiveSpec().model_dump(mode="json")
    back: dict[str, Any] = {}
    for field in plan.contestant(job.contestant).declared:
        section, _, name = field.partition(".")
        back[field] = terms[section][name]
    return replace_values(spec.model_dump(mode="json"), back)


def first_settings(contestant: Contestant, names: Mapping[str, object]) -> dict[str, float]:
    """The first preset's values of the searched settings; the loss's defaults where the preset sets none."""
    entry = losses.get(contestant.loss)
    preset = entry.presets.get(contestant.start or "")
    given: dict[str, Any] = {**entry.options, **(preset.options if preset else {})}
    given[RATE] = contestant.first_multiplier
    return {name: float(given[name]) for name in names if isinstance(given.get(name), int | float)}
