"""The plan of a tournament: one set of terms for all, and contestants that can only say what may differ."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from similis.registry import check_known, losses
from similis.run.spec import DataSpec, EvaluationSpec, ModelSpec, replace_values
from similis.run.training_spec import Part, TrainingSpec
from similis.study.plan.contestant import Contestant
from similis.training.closed_form import FITS

CROSSED = ("balanced", "random")
NAME = r"^[\w+.-]+$"  # of an arena; records and files are named by it
WORDS = r"^[^\W_]+( [^\W_]+)*$"  # of a length, whose spaces are _ in names of files


class PlanTerms(Part):
    """What is held equal: a run specification without its loss and its seed."""

    data: DataSpec
    model: ModelSpec = ModelSpec()
    training: TrainingSpec = TrainingSpec()
    evaluation: EvaluationSpec = EvaluationSpec()

    @model_validator(mode="after")
    def nothing_of_the_loss(self) -> PlanTerms:
        """Rates of a loss's own parameters belong to the search, folds to the protocol, draws to the repetition."""
        if self.training.loss_multiplier is not None or self.data.fold or self.data.validation_seed is not None:
            raise ValueError("loss_multiplier is searched, data.fold and data.validation_seed are drawn: drop them")
        return self


class SearchPlan(Part):
    """How each loss is tuned, with a budget in proportion to what is searched."""

    trials: int = Field(
        3, ge=0, description="runs of full length for each setting that is searched, beside the preset; 0: no search"
    )
    epochs: int | None = Field(None, ge=1, description="length of a trial; null: that of a final run")
    space: Literal["registry"] = Field("registry", description="whose ranges; every loss declares its own")
    strategy: Literal["tpe", "random"] = "tpe"
    startup: int = Field(4, ge=1, description="random trials before the sampler learns and the pruner cuts")
    pruning: bool = Field(True, description="stop trials below the median validation R@1")
    rate_factor: float = Field(
        10.0, ge=1, description="the network's rate is searched within this factor of the terms'; 1: not searched"
    )
    shared: bool = Field(
        False, description="one search serves all repetitions: cheaper, and no interval has what tuning varies"
    )
    seed: int = 0
    storage: None = Field(None, description="always null: trials are kept in the tournament's folder")


class Arena(Part):
    """One table: changes of the terms that hold for all of its contestants. Settings are searched in the first."""

    name: str = Field(pattern=NAME)
    data: dict[str, Any] = Field({}, description="values of the section data: wrong_labels, ...")
    model: dict[str, Any] = Field({}, description="values of the section model: dim, backbone, weights, ...")
    training: dict[str, Any] = Field({}, description="values of the section training: sampler, epochs, ...")
    evaluation: dict[str, Any] = Field({}, description="values of the section evaluation: sizes, ...")
    contestants: tuple[str, ...] | None = Field(None, min_length=1, description="names; null for all")
    lengths: tuple[str, ...] | None = Field(None, min_length=1, description="names; null for all")

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
    sampler: Literal["balanced", "random", "own", "crossed"] = Field(
        description="batches: one sampler for all; own: each loss's declared one, a difference that every table names; "
        "crossed: each contestant with balanced and with random ones"
    )
    search: SearchPlan = SearchPlan.model_validate({})
    repetitions: int = Field(
        12, ge=1, description="each draws search points, validation classes, weights and batches anew, the same for all"
    )
    runs_per_repetition: int = Field(
        1, ge=1, description="final runs with other seeds and the same settings; 2 tells tuning from seeds"
    )
    against: str | None = Field(None, description="the baseline of the question; null: all pairs")
    margin: float = Field(1.0, gt=0, description="points of R@1 within which two losses count as equivalent")
    floors: bool = Field(True, description="measure baselines that need no training on the same test images")
    arenas: tuple[Arena, ...] = Field((Arena.model_validate({"name": "main"}),), min_length=1)
    lengths: dict[Annotated[str, Field(pattern=WORDS)], Length] = Field(
        {"equal samples": Length.model_validate({})}, min_length=1
    )
    threads: int = Field(1, ge=1, description="of one run; a number may depend on it, so it is held equal")

    @model_validator(mode="before")
    @classmethod
    def cross(cls, values: Any) -> Any:
        """A crossed plan has each contestant once for each kind of batches; a closed form has none."""
        if not isinstance(values, dict) or values.get("sampler") != "crossed":
            return values
        words = values.get("contestants") or ()
        given = [{"loss": each} if isinstance(each, str) and each not in FITS else each for each in words]
        whole = [each for each in given if not isinstance(each, dict) or each.get("head") in tuple(FITS)]
        whole += [each for each in given if each not in whole and (each.get("sampler") or each.get("offline_mining"))]
        twice = [each | {"sampler": name} for each in given if each not in whole for name in CROSSED]
        return values | {"contestants": whole + twice}

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
        """Arenas name contestants that exist and a model that can be; the batches are named once."""
        titles = [each.title for each in self.contestants]
        if self.terms.training.sampler is not None:
            raise ValueError("terms.training.sampler is set; name it once, as sampler: of the plan")
        if self.against is not None:
            check_known("contestant", self.against, titles)
        if len({arena.name for arena in self.arenas}) < len(self.arenas):
            raise ValueError("two arenas have one name; every arena needs a name of its own")
        own = [each.title for each in self.contestants if each.sampler and self.sampler != "crossed"]
        if own:
            raise ValueError(f"{own[0]} sets training.sampler, which is held equal for all; say sampler: crossed")
        for arena in self.arenas:
            for name in arena.contestants or ():
                check_known("contestant", name, titles)
            for name in arena.lengths or ():
                check_known("length", name, self.lengths)
            if self.sampler in ("own", "crossed") and "sampler" in arena.training:
                raise ValueError(
                    f"arena {arena.name} sets a sampler and the plan's sampler is {self.sampler}: drop one"
                )
            self.arena_terms(arena)
        return self

    def arena_terms(self, arena: Arena) -> PlanTerms:
        """The terms of one table."""
        named = {} if self.sampler in ("own", "crossed") else {"training.sampler": self.sampler}
        return PlanTerms.model_validate(replace_values(self.terms.model_dump(mode="json"), named | arena.changes))

    def declared_values(self, contestant: Contestant) -> dict[str, Any]:
        """Dotted name -> value of what a contestant has instead of the terms, because the plan says so."""
        unnamed = self.sampler in ("own", "crossed")  # crossed ones have theirs; a closed form uses none
        own = {"training.sampler": losses.get(contestant.loss).sampler} if unnamed else {}
        return own | contestant.declared

    def arena(self, name: str) -> Arena:
        """The arena of that name."""
        return next(each for each in self.arenas if each.name == name)

    def contestant(self, title: str) -> Contestant:
        """The contestant of that name."""
        known = {each.title: each for each in self.contestants}
        check_known("contestant", title, known)
        return known[title]

    @property
    def trial_epochs(self) -> int:
        """Length of a trial."""
        return self.search.epochs or self.terms.training.epochs

    def members(self, arena: Arena) -> list[Contestant]:
        """The contestants of one table."""
        return [each for each in self.contestants if arena.contestants is None or each.title in arena.contestants]

    @property
    def folds(self) -> tuple[int, ...]:
        """Folds that every setting is run over; one unless the protocol is cross-validation."""
        data = self.terms.data
        return tuple(range(data.folds)) if data.protocol == "cross-validation" else (0,)
