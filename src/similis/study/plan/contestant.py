"""A contestant of a tournament: the loss, and everything in which it may differ from the others."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from similis.objective.loss_options import check_settings
from similis.registry import losses
from similis.run.spec import ObjectiveSpec
from similis.run.training_spec import MiningSpec, Part
from similis.training.closed_form import FITS


def closed_form(name: str) -> dict[str, Any]:
    """The values of a contestant that is a head in closed form; its loss is not used."""
    return {"loss": ObjectiveSpec().loss, "name": name, "head": name, "fixed": True}


class Contestant(Part):
    """What may differ: the loss, its own settings, the miner that it declares, and extras that stand in its title."""

    loss: str
    name: str = ""
    preset: str | None = Field(None, description="where the search begins; null: paper if the loss has it")
    options: dict[str, bool | int | float | str | None] = Field({}, description="options that are set and not searched")
    fixed: bool = Field(False, description="nothing is searched: the preset and the options are what is compared")
    lr: float | None = Field(None, gt=0, description="rate of the network, where fixed; null: the terms'")
    sampler: Literal["balanced", "random"] | None = Field(None, description="its batches, in a plan that is crossed")
    loss_multiplier: float | None = Field(
        None, gt=0, description="rate of its parameters where the search begins; null: the preset's"
    )
    miner: str | None = None
    offline_mining: MiningSpec | None = Field(None, description="batches from offline mining; a bare word is its kind")
    memory: int = Field(0, ge=0, description="rows of cross-batch memory")
    memory_start: int = Field(0, ge=0, description="batches before the memory is used")
    nested_sizes: tuple[int, ...] = Field((), description="leading sizes that are trained too")
    head: Literal["whitening", "pca", "lda", "whitening+trained"] | None = Field(
        None,
        description="a head in closed form instead of the loss, or a trained one that starts there; null: the terms'",
    )
    language: str | None = Field(None, description="file of a class-similarity matrix")
    language_weight: float = Field(ObjectiveSpec().language_weight, description="weight of language guidance")

    @model_validator(mode="before")
    @classmethod
    def from_word(cls, value: Any) -> Any:
        """A bare word is the name of a loss, or of a closed form, which has no loss."""
        if isinstance(value, str) and value in FITS:
            return closed_form(value)
        return {"loss": value} if isinstance(value, str) else value

    @field_validator("offline_mining", mode="before")
    @classmethod
    def kind_of_mining(cls, value: Any) -> Any:
        """A bare word is the kind of mining."""
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def check_names(self) -> Contestant:
        """The loss exists; names are good file names."""
        check_settings(self.loss, self.options, preset=self.preset, miner=self.miner)
        if not all(c.isalnum() or c in "_+." for c in self.title):
            raise ValueError(f"the name {self.title!r} may hold letters, digits and _ + . only")
        if self.head in FITS and (self.name, self.fixed) != (self.head, True):
            raise ValueError(f"the head {self.head} is fitted without a loss; write the bare word {self.head}")
        if self.lr is not None and not self.fixed:
            raise ValueError(
                f"{self.title} sets lr, which is searched in one range for all; set fixed: true to keep it"
            )
        return self

    @property
    def title(self) -> str:
        """The name in tables and files; extras are always part of it."""
        words = [
            self.sampler or "",
            f"mined_{self.offline_mining.kind}" if self.offline_mining else "",
            f"memory{self.memory}" if self.memory else "",
            f"nested{'.'.join(map(str, self.nested_sizes))}" if self.nested_sizes else "",
            "language" if self.language else "",
            "from_whitening" if self.head == "whitening+trained" else "",
        ]
        return "+".join([self.name or losses.get(self.loss).name, *filter(None, words)])

    @property
    def declared(self) -> dict[str, Any]:
        """Dotted name -> value of the settings in which it differs from the terms, because its plan says so."""
        found: dict[str, Any] = {"training.sampler": self.sampler} if self.sampler else {}
        if self.offline_mining:
            found |= {"training.sampler": "mined", "training.mining": self.offline_mining.model_dump(mode="json")}
        if self.head:
            found["model.head"] = self.head
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
