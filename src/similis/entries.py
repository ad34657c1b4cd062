"""What is registered: losses and miners with their traits, as the registry keeps them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal

from similis.introspection import keyword_defaults, source_text
from similis.values import Options, OptionValue

Family = Literal["pair", "triplet", "proxy", "classification"]


@dataclass(frozen=True)
class Range:
    """A search range of one option: ``[low, high]``, on a grid of ``step`` or log-uniform."""

    low: float
    high: float
    step: float | None = None
    log: bool = False


@dataclass(frozen=True)
class Preset:
    """Named settings with their source: options, and what the run around the loss must do."""

    options: Options
    source: str
    miner: str | None = None
    lr_multiplier: float | None = None


@dataclass(frozen=True)
class Cost:
    """Time and memory of forward and backward in B, C, D, K (see the legend in ``values``).

    ``tuples`` is the memory of a call with T tuples, where they are taken; a miner adds B M for similarities.
    """

    time: str
    memory: str
    tuples: str = ""


@dataclass(frozen=True)
class Entry:
    """What every registered thing has: a name, a function, a paper, and the source of its file when it was imported."""

    name: str
    function: Callable[..., Any]
    paper: str
    source: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", source_text(self.function))  # edited later, it is not what is run

    @property
    def options(self) -> dict[str, OptionValue]:
        """Options with their defaults, read from the function's own keyword-only arguments."""
        return keyword_defaults(self.function)

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


@dataclass(frozen=True)
class LossEntry(Entry):
    """A loss with its traits; see :func:`register_loss` for the meaning of each."""

    family: Family
    geometry: str
    input: Literal["raw", "unit", "either"]
    cost: Cost
    network: str
    weight: str
    learns: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    forms: Mapping[str, Options] = field(default_factory=lambda: {"default": {}})
    presets: Mapping[str, Preset] = field(default_factory=dict)
    space: Mapping[str, Range] = field(default_factory=dict)
    accepts: Literal["pairs", "triplets"] | None = None
    sampler: Literal["balanced", "random"] = "balanced"
    relation: Literal["none", "sets", "graded"] = "none"
    memory: bool = False
    lr_multiplier: float = 1.0
    exempt: Mapping[str, str] = field(default_factory=dict)
    plain: object = None  # of a file, not registered: a function or nn.Module of (embeddings, labels)

    @property
    def options(self) -> dict[str, OptionValue]:
        """Options of the formula and of what it learns (the number of centres, say)."""
        made = {key: value for make in self.learns.values() for key, value in keyword_defaults(make).items()}
        own = {key: value for key, value in keyword_defaults(self.function).items() if key not in self.learns}
        return own | made


@dataclass(frozen=True)
class MinerEntry(Entry):
    """A miner: which tuples it returns, and whether one anchor's tuples depend on another's (``joint``)."""

    returns: Literal["pairs", "triplets"]
    joint: bool = False


def plain_loss(module: ModuleType, name: str) -> LossEntry | None:
    """A function or ``nn.Module`` of (embeddings, labels) in a file, as a loss without traits; None if there is none.

    A class of modules is built without arguments. Nothing is known of such a loss but how it is called, so it is
    computed as it is: in one process, in whatever memory it takes.
    """
    found = getattr(module, name, None)
    made = found() if inspect.isclass(found) else found
    if not callable(made):
        return None
    options = inspect.signature(made).parameters if inspect.isfunction(made) else {}

    def call(embeddings: Any, labels: Any) -> Any:
        return made(embeddings, labels)

    function = made if inspect.isfunction(made) and len(options) >= 2 else call
    function.__module__, function.__name__ = module.__name__, name  # where its source is
    unstated = "not stated"
    return LossEntry(
        name, function, unstated, family="pair", geometry=unstated, input="either", cost=Cost(unstated, unstated),
        network=unstated, weight=unstated, plain=made,
    )  # fmt: skip
