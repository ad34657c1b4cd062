"""Names and what stands behind them: the one table that drives command line, docs and contracts.

A loss file registers itself with :func:`register_loss`; nothing else has to be edited. Other packages name the
module that registers as an entry point of the group ``similis.losses`` or ``similis.miners``.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import math
import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from threading import RLock
from types import ModuleType
from typing import Any, Generic, Literal, TypeVar, get_args

from similis.entries import Cost as Cost
from similis.entries import Entry as Entry
from similis.entries import Family as Family
from similis.entries import LossEntry as LossEntry
from similis.entries import MinerEntry as MinerEntry
from similis.entries import Preset as Preset
from similis.entries import Range as Range
from similis.entries import plain_loss
from similis.introspection import check_takes
from similis.loss_file import MARK, content_hash, describe_failure, import_file, split_place
from similis.values import Communicator, Options, UserError

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


E = TypeVar("E", bound=Entry)


class Registry(Generic[E]):
    """Entries by name; filled on first use from one package of files and from entry points."""

    def __init__(self, kind: str, package: str, plain: Callable[[ModuleType, str], E | None] | None = None) -> None:
        self.kind = kind
        self.package = package
        self.plain = plain  # makes an entry of what a file defines and does not register
        self._entries: dict[str, E] = {}
        self._from_files: dict[tuple[str, str], E] = {}  # place and content -> entry
        self.failures = ""  # about plug-ins that cannot be imported: the end of a sentence about a missing name
        self._filled = False
        self._filling = RLock()  # of one thread, for a file that is imported may ask for another entry

    def add(self, entry: E) -> None:
        """Take an entry in; a name is given once only."""
        known = self._entries.get(entry.name)
        if known is not None and known.function.__module__ != entry.function.__module__:
            both = f"{known.function.__module__} and again by {entry.function.__module__}"
            raise UserError(f"{self.kind} {entry.name!r} is registered by {both}; choose another name for one of them")
        self._entries[entry.name] = entry

    def register(self, make: Callable[[F], E]) -> Callable[[F], F]:
        """Register the decorated function as the entry that ``make`` makes of it."""

        def register(function: F) -> F:
            self.add(make(function))
            return function

        return register

    def get(self, name: str) -> E:
        """The entry of that name, or of ``FILE.py:FUNCTION``; an unknown name is answered with the nearest one."""
        self.fill()
        if isinstance(name, str) and MARK in name:
            return self._from_file(name)
        if not isinstance(name, str) or name not in self._entries:
            raise UserError(unknown(self.kind, name, self._entries) + self.failures)
        return self._entries[name]

    def _from_file(self, name: str) -> E:
        """The entry that a function of a file registers, imported again if the file was edited; it joins no list."""
        path, function = split_place(name)
        key = f"{path}:{function}", content_hash(path)
        with self._filling:
            if key not in self._from_files:
                before = dict(self._entries)
                try:
                    module = import_file(path)
                    found = {k: e for k, e in self._entries.items() if e.function.__module__ == module.__name__}
                finally:
                    self._entries = before
                plain = None if self.plain is None or function in found else self.plain(module, function)
                if function not in found and plain is None:
                    raise UserError(
                        f"{path} has no {self.kind} {function!r} (it registers: {', '.join(found) or 'none'}); "
                        f"define a function of that name, or put @register_{self.kind}(...) above one"
                    )
                self._from_files[key] = found[function] if plain is None else plain
            return self._from_files[key]

    def __iter__(self) -> Iterator[E]:
        self.fill()
        return iter([self._entries[name] for name in sorted(self._entries)])

    def __contains__(self, name: str) -> bool:
        self.fill()
        return name in self._entries or MARK in name

    def fill(self) -> None:
        """Import every file of the package and every entry point, once; other threads wait until that is done."""
        package = importlib.import_module(self.package)  # before the lock: the package may fill while it is imported
        with self._filling:
            if self._filled:
                return
            self._filled = True
            files = [EntryPoint(m.name, f"{self.package}.{m.name}", "") for m in pkgutil.iter_modules(package.__path__)]
            for point in [*files, *entry_points(group=f"similis.{self.package.rpartition('.')[2]}")]:
                self._load(point)
            for name, entry in self._entries.items():  # `from package import triplet` means the function, not its file
                setattr(package, name, entry.function)

    def _load(self, point: EntryPoint) -> None:
        """Import a module that registers itself; if that fails, say so and go on without it."""
        before = dict(self._entries)
        try:
            point.load()
        except (Exception, SystemExit) as error:  # a module of others may fail in any way
            self._entries = before
            sentence = f"the plug-in {point.name} ({point.value}) cannot be imported: {describe_failure(error)}"
            self.failures += f"; {sentence}"
            logger.warning("%s; mend or uninstall it, all else works without it", sentence)


def find_communicator(group: object = None) -> Communicator | None:
    """The ranks of a process group, None for that of all processes; None if this process is alone."""
    # by name: packages below the engine ask for ranks, and do not import it
    found: Communicator | None = importlib.import_module("similis.engine.collectives").find_ranks(group)
    return found


losses: Registry[LossEntry] = Registry("loss", "similis.objective.losses", plain_loss)
miners: Registry[MinerEntry] = Registry("miner", "similis.objective.miners")


def register_loss(
    *,
    family: Family,
    geometry: str,
    input: Literal["raw", "unit", "either"],
    cost: Cost,
    paper: str,
    network: str,
    weight: str,
    learns: Mapping[str, Callable[..., Any]] | None = None,
    forms: Mapping[str, Options] | None = None,
    presets: Mapping[str, Preset] | None = None,
    space: Mapping[str, Range] | None = None,
    accepts: Literal["pairs", "triplets"] | None = None,
    sampler: Literal["balanced", "random"] | None = None,
    relation: Literal["none", "sets", "graded"] = "none",
    memory: bool = False,
    lr_multiplier: float = 1.0,
    exempt: Mapping[str, str] | None = None,
) -> Callable[[F], F]:
    """Register the decorated function as a loss under its own name.

    Args:
        family: what is compared: samples in pairs or triplets, or samples with learned classes.
        geometry: the geometry of its margins and similarities, in words.
        input: whether it wants raw vectors, puts them on the unit sphere itself, or takes either.
        cost: time and memory of the dense form under backward.
        paper: authors, title, venue, year.
        network: the network and embedding size of the original publication.
        weight: what a pair's weight depends on (S own, N negatives, P positives), in words.
        learns: argument name -> function that makes its initial tensor (proxies, a margin).
        forms: name -> options of each published variant; the tests hold one oracle for each.
        presets: settings of the sources by name: ``paper``, ``thesis``, ``thesis_tuned``.
        space: option -> range for the hyper-parameter search.
        accepts: the tuples of a miner that it can be restricted to.
        sampler: the batches it needs: several images of each class, or any; None: any, if it learns classes.
        relation: whether a matrix may stand in for labels: only as sets, or with its grades.
        memory: whether a cross-batch memory may extend its references.
        lr_multiplier: learning rate of its parameters relative to the backbone's.
        exempt: contract name -> reason why this loss does not keep it.
    """

    def register(function: F) -> F:
        usual: Literal["balanced", "random"] = "random" if family in ("proxy", "classification") else "balanced"
        entry = LossEntry(
            name=function.__name__, function=function, paper=paper, family=family, geometry=geometry,
            input=input, cost=cost, network=network, weight=weight, learns=dict(learns or {}),
            forms=dict(forms or {"default": {}}), presets=dict(presets or {}), space=dict(space or {}),
            accepts=accepts, sampler=sampler or usual, relation=relation, memory=memory,
            lr_multiplier=lr_multiplier, exempt=dict(exempt or {}),
        )  # fmt: skip
        check_takes(entry.name, function, {"tuples": accepts and "accepts", "references": memory and "memory"})
        if family not in get_args(Family):
            raise UserError(f"{entry.name} has the family {family!r}; allowed are {', '.join(get_args(Family))}")
        losses.add(entry)
        return function

    return register


def register_miner(*, returns: Literal["pairs", "triplets"], paper: str, joint: bool = False) -> Callable[[F], F]:
    """Register the decorated function as a miner under its own name.

    Args:
        returns: what it returns.
        paper: authors, title, venue, year.
        joint: its tuples of one anchor depend on those of others: it must see all rows at once.
    """
    return miners.register(lambda function: MinerEntry(function.__name__, function, paper, returns, joint))


def check_known(kind: str, name: object, known: Collection[str]) -> None:
    """Raise with the sentence of :func:`unknown` for a name that is none of those known."""
    if name not in known:
        raise UserError(unknown(kind, name, known))


def unknown(kind: str, name: object, known: Iterable[str], *, elsewhere: Iterable[str] = ()) -> str:
    """The sentence for a name that does not exist, with the nearest one that does.

    Args:
        kind: what it should name.
        name: as given.
        known: names that would do.
        elsewhere: names that are not listed, but suggested if none of the known ones is near.
    """
    known = sorted(known)
    near = find_nearest(name, known) or find_nearest(name, elsewhere)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"unknown {kind} {name!r}{hint} (known: {', '.join(known) or 'none'})"


def find_nearest(name: object, known: Iterable[str]) -> str | None:
    """The name most like one that does not exist: by its initials, its letters or its beginning; None if none is.

    Of dotted keys the last words are compared, because the rest is usually the same.

    Example:
        >>> find_nearest("training.learning_rate", ["training.mining", "training.lr"])
        'training.lr'
        >>> find_nearest("nowhere", ["grocery", "cub200_2011"]), find_nearest("cub", ["grocery", "cub200_2011"])
        (None, 'cub200_2011')
    """
    own = str(name).rpartition(".")[2].lower().replace("-", "_")
    last = {each.rpartition(".")[2].lower(): each for each in known}
    initials = "".join(word[:1] for word in own.split("_"))
    begins = {each: max(3, math.ceil(0.6 * min(len(own), len(each)))) for each in last}  # letters that must agree
    begun = [each for each, letters in begins.items() if each[:letters] == own[:letters]]
    short = [initials] if len(initials) > 1 and initials in last else []
    near = short or difflib.get_close_matches(own, last, n=1, cutoff=0.6) or begun
    return last[near[0]] if near else None
