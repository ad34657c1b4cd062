"""The plan of a tournament: one set of terms for all, and contestants that can only say what may differ."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from similis.registry import losses, unknown
from similis.run.spec import DataSpec, EvaluationSpec, ModelSpec, ObjectiveSpec, replace_values
from similis.run.training_spec import MiningSpec, Part, TrainingSpec
from similis.values import UserError

_OBJECTIVE = ObjectiveSpec()  # the terms of every contestant that declares no extras
OptionValue = bool | int | float | str | None


class PlanTerms(Part):
    """What is held equal: a run specification without its loss and its seed."""

    data: DataSpec
    model: ModelSpec = ModelSpec()
    training: TrainingSpec = TrainingSpec()
    evaluation: EvaluationSpec = EvaluationSpec()

    @model_validator(mode="after")
    def nothing_of_the_loss(self) -> PlanTerms:
        """Rates of a loss's own parameters belong to the search, folds to the protocol."""
        if self.training.loss_multiplier is not None or self.data.fold:
            raise ValueError("training.loss_multiplier is searched for each loss and data.fold is run through: drop it")
        return self


class Contestant(Part):
    """What may differ: the loss, its own settings, the miner that it declares, and extras that stand in its title."""

    loss: str
    name: str = ""
    preset: str | None = Field(None, description="where the search begins; null: paper if the loss has it")
    options: dict[str, OptionValue] = Field({}, description="options that are set, and not searched")
    loss_multiplier: float | None = Field(
        None, gt=0, description="rate of its parameters where the search begins; null: the preset's"
    )
    miner: str | None = None
    offline_mining: MiningSpec | None = Field(None, description="batches from offline mining; a bare word is its kind")
    memory: int = Field(0, ge=0, description="rows of cross-batch memory")
    memory_start: int = Field(0, ge=0, description="batches before the memory is used")
    nested_sizes: tuple[int, ...] = Field((), description="leading sizes that are trained too")
    language: str | None = Field(None, description="file of a class-similarity matrix")
    language_weight: float = Field(_OBJECTIVE.language_weight, description="weight of language guidance")

    @model_validator(mode="before")
    @classmethod
    def from_word(cls, value: Any) -> Any:
        """A bare word is the name of a loss."""
        return {"loss": value} if isinstance(value, str) else value

    @field_validator("offline_mining", mode="before")
    @classmethod
    def kind_of_mining(cls, value: Any) -> Any:
        """A bare word is the kind of mining."""
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def known(self) -> Contestant:
        """The loss exists; names are good file names."""
        entry = losses.get(self.loss)
        if self.preset is not None and self.preset not in entry.presets:
            raise ValueError(unknown(f"preset of {self.loss}", self.preset, entry.presets))
        if not all(c.isalnum() or c in "_+." for c in self.title):
            raise ValueError(f"the name {self.title!r} may hold letters, digits and _ + . only")
        return self

    @property
    def title(self) -> str:
        """The name in tables and files; extras are always part of it."""
        words = [
            f"mined_{self.offline_mining.kind}" if self.offline_mining else "",
            f"memory{self.memory}" if self.memory else "",
            f"nested{'.'.join(map(str, self.nested_sizes))}" if self.nested_sizes else "",
            "language" if self.language else "",
        ]
        return "+".join([self.name or self.loss, *filter(None, words)])

    @property
    def declared(self) -> dict[str, Any]:
        """Dotted name -> value of the settings in which it differs from the terms, because its plan says so."""
        found: dict[str, Any] = {}
        if self.offline_mining:
            found |= {"training.sampler": "mined", "training.mining": self.offline_mining.model_dump(mode="json")}
        if self.memory:
            found |= {"objective.memory": self.memory, "objective.memory_start": self.memory_start}
        if self.nested_sizes:
            found["objective.nested_sizes"] = list(self.nested_sizes)
        if self.language:
            found |= {"objective.language": self.language, "objective.language_weight": self.language_weight}
        return found

    @property
    def start(self) -> str | None:
        """The preset that the search begins with."""
        return self.preset or ("paper" if "paper" in losses.get(self.loss).presets else None)

    @property
    def first_multiplier(self) -> float:
        """The rate of the loss's parameters that the search begins with, relative to the network's."""
        entry = losses.get(self.loss)
        preset = entry.presets.get(self.start or "")
        return self.loss_multiplier or (preset.lr_multiplier if preset else None) or entry.lr_multiplier


class SearchPlan(Part):
    """How each loss is tuned, with the same budget for all."""

    trials: int = Field(10, ge=0, description="budget in runs of full length, the first preset included; 0: no search")
    epochs: int = Field(5, ge=1, description="length of a trial")
    space: Literal["registry", "table15"] = Field("registry", description="whose ranges")
    strategy: Literal["tpe", "random", "one-at-a-time"] = "tpe"
    startup: int = Field(4, ge=1, description="random trials before the sampler learns and the pruner cuts")
    pruning: bool = Field(True, description="stop trials below the median validation R@1")
    seed: int = 0
    storage: str | None = Field(None, description="SQL URL; null for a journal file in the tournament's folder")


class Arena(Part):
    """One table: changes of the terms that hold for all of its contestants. Settings are searched in the first."""

    name: str
    data: dict[str, Any] = Field({}, description="values of the section data: wrong_labels, ...")
    model: dict[str, Any] = Field({}, description="values of the section model: dim, backbone, weights, ...")
    training: dict[str, Any] = Field({}, description="values of the section training: sampler, epochs, ...")
    evaluation: dict[str, Any] = Field({}, description="values of the section evaluation: sizes, ...")
    contestants: tuple[str, ...] | None = Field(None, description="names; null for all")
    lengths: tuple[str, ...] | None = Field(None, description="names; null for all")

    @field_validator("data")
    @classmethod
    def same_protocol(cls, value: dict[str, Any]) -> dict[str, Any]:
        """A contestant's search serves all arenas, so they share how it is selected."""
        fixed = sorted({"protocol", "folds", "fold"} & value.keys())
        if fixed:
            raise ValueError(f"an arena cannot change data.{fixed[0]}: it belongs to the terms; write a second plan")
        return value

    @property
    def changes(self) -> dict[str, Any]:
        """Dotted name -> value of all that differs from the terms."""
        parts = {"data": self.data, "model": self.model, "training": self.training, "evaluation": self.evaluation}
        return {f"{part}.{key}": value for part, values in parts.items() for key, value in values.items()}


class Length(Part):
    """How long the final runs train: as the terms say, or until validation stops improving."""

    epochs: int | None = Field(None, ge=1)
    patience: int | None = Field(None, ge=1)


class Plan(Part):
    """A tournament."""

    name: str
    terms: PlanTerms
    contestants: tuple[Contestant, ...]
    search: SearchPlan = SearchPlan.model_validate({})
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    arenas: tuple[Arena, ...] = (Arena.model_validate({"name": "main"}),)
    lengths: dict[str, Length] = Field({"equal samples": Length.model_validate({})})
    threads: int = Field(1, ge=1, description="of one run; a number may depend on it, so it is held equal")

    @field_validator("contestants")
    @classmethod
    def one_name_each(cls, value: tuple[Contestant, ...]) -> tuple[Contestant, ...]:
        """Two contestants of one loss need two names."""
        titles = [each.title for each in value]
        twice = sorted({title for title in titles if titles.count(title) > 1})
        if twice or not titles:
            raise ValueError(f"every contestant needs a name of its own; given twice: {', '.join(twice) or 'none'}")
        return value

    @model_validator(mode="after")
    def sensible(self) -> Plan:
        """Arenas name contestants that exist and a model that can be; seeds differ."""
        titles = [each.title for each in self.contestants]
        for arena in self.arenas:
            for name in arena.contestants or ():
                if name not in titles:
                    raise ValueError(unknown("contestant", name, titles))
            for name in arena.lengths or ():
                if name not in self.lengths:
                    raise ValueError(unknown("length", name, list(self.lengths)))
            self.arena_terms(arena)
        if len(set(self.seeds)) != len(self.seeds) or not self.seeds:
            raise ValueError(f"seeds {list(self.seeds)} must be different and at least one")
        return self

    def arena_terms(self, arena: Arena) -> PlanTerms:
        """The terms of one table."""
        return PlanTerms.model_validate(replace_values(self.terms.model_dump(mode="json"), arena.changes))

    def arena(self, name: str) -> Arena:
        """The arena of that name."""
        return next(each for each in self.arenas if each.name == name)

    def contestant(self, title: str) -> Contestant:
        """The contestant of that name."""
        for each in self.contestants:
            if each.title == title:
                return each
        raise UserError(unknown("contestant", title, [each.title for each in self.contestants]))

    def members(self, arena: Arena) -> list[Contestant]:
        """The contestants of one table."""
        return [each for each in self.contestants if arena.contestants is None or each.title in arena.contestants]

    @property
    def folds(self) -> tuple[int, ...]:
        """Folds that every setting is run over; one unless the protocol is cross-validation."""
        data = self.terms.data
        return tuple(range(data.folds)) if data.protocol == "cross-validation" else (0,)
