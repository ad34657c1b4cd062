"""A loss as a module: the formula of a registered loss with its options and what it learns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from similis.objective.compare import checked_labels, compare
from similis.objective.joining import (
    Joint,
    communicator_here,
    divided,
    joined,
    joint_of,
    passed_round,
    scaled_gradient,
)
from similis.objective.mining import each_row, mined_jointly, row_by_row
from similis.objective.proxies import Size
from similis.objective.references import References, batch_references
from similis.objective.tiling import dense
from similis.registry import LossEntry, Preset, keyword_defaults, losses, miners, unknown
from similis.values import Counts, Options, OptionValue, Pairs, Triplets, UserError

Miner = Callable[..., Pairs | Triplets]


class Loss(nn.Module):
    """Call it with embeddings (B, D) and labels (B,); it returns a scalar.

    Class vectors and learned margins are its parameters: hand them to the optimiser, for example
    by :meth:`parameter_groups`. ``mined`` tells what the miner found at the last call.
    """

    def __init__(
        self,
        entry: LossEntry,
        options: Options,
        learned: Mapping[str, Tensor],
        *,
        class_ids: Tensor | None = None,
        miner: Miner | None = None,
        lr_multiplier: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.entry = entry
        self.options = dict(options)
        self.learned = nn.ParameterDict({name: nn.Parameter(value) for name, value in learned.items()})
        self.register_buffer("class_ids", class_ids)
        self.miner = miner
        self.seed = seed
        self.draws: Tensor  # how often the miner was called: with the seed, the whole state of its draws
        self.register_buffer("draws", None if miner is None else torch.zeros((), dtype=torch.int64))
        self.lr_multiplier = entry.lr_multiplier if lr_multiplier is None else lr_multiplier
        self.mined: Counts | None = None
        self.classes: Joint | None = None  # how the class vectors are divided over processes (see ``sharding``)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        *,
        references: References | None = None,
        tuples: Pairs | Triplets | None = None,
    ) -> Tensor:
        """The loss of a batch.

        Args:
            embeddings: (B, D), any floating point type.
            labels: (B,) integer class ids; a relation (B, B) where the loss allows it.
            references: what the anchors are compared with; None for the batch itself.
            tuples: pairs or triplets to restrict the loss to, instead of the miner's.
        """
        return self.of(embeddings, labels, dict(self.learned.items()), references=references, tuples=tuples)

    def of(
        self,
        embeddings: Tensor,
        labels: Tensor,
        learned: Mapping[str, Tensor],
        *,
        references: References | None = None,
        tuples: Pairs | Triplets | None = None,
        classes: Joint | None = None,
    ) -> Tensor:
        """The loss with other values in the place of its parameters (cut ones, for nested sizes).

        ``classes`` tells how class vectors that were handed over are divided; None for as the loss's own are.
        """
        if embeddings.ndim != 2:
            raise UserError(f"embeddings have shape {tuple(embeddings.shape)}; pass one row per sample, (B, D)")
        self._check(labels, references, tuples)
        if learned and labels.ndim == 1:
            labels = self.class_rows(labels)
        arguments: dict[str, Any] = dict(self.options) | dict(learned)
        if self.miner is not None and tuples is None:
            if references is None and communicator_here() is not None:  # gathered once for miner and loss
                references = batch_references(embeddings, labels)
            tuples = self._mine(embeddings, labels, references)
        if tuples is not None:
            arguments["tuples"] = tuples
        if references is not None:
            arguments["references"] = references
        classes = self.classes if classes is None else classes
        if classes is not None:
            return self._divided(embeddings, labels, arguments, classes)
        value: Tensor = self.entry.function(embeddings, labels, **arguments)
        # comparisons drop what is no number; a network that has diverged must not look converged
        return value + (embeddings.detach() * 0).sum().to(value.dtype)

    def _divided(self, embeddings: Tensor, labels: Tensor, arguments: dict[str, Any], classes: Joint) -> Tensor:
        """The loss of the samples of all processes, here with this process's share of the classes."""
        batch = joint_of(len(embeddings))
        if batch is None:
            raise UserError("the class vectors are divided over processes; call the loss inside joined(communicator)")
        for name in self.entry.learns:
            value = arguments.get(name)
            if isinstance(value, Tensor) and value.ndim > 1:
                # the value is formed once for each process, but a share has one owner
                arguments[name] = scaled_gradient(value, 1 / classes.communicator.world)
        if passed_round():  # classes that are anchors meet the samples of others as these come by
            with divided(classes):
                own: Tensor = self.entry.function(embeddings, labels, **arguments)
            return own
        with joined(None), divided(classes):
            total: Tensor = self.entry.function(batch.gather(embeddings), batch.gather(labels), **arguments)
        return total

    def shared_parameters(self) -> list[nn.Parameter]:
        """Parameters that every process has whole: those whose gradients are averaged over processes."""
        return [p for p in self.learned.values() if self.classes is None or p.ndim <= 1]

    def class_rows(self, labels: Tensor) -> Tensor:
        """Row numbers of the proxies for class ids; ids outside ``class_ids`` are refused."""
        return rows_of(labels, self.class_ids) if isinstance(self.class_ids, Tensor) else labels

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """One optimiser group with the rate ``lr`` times the loss's multiplier; none without parameters."""
        own = list(self.parameters())
        return [{"params": own, "lr": lr * self.lr_multiplier}] if own else []

    def extra_repr(self) -> str:
        """Name and options, for ``print(loss)``."""
        return ", ".join([repr(self.entry.name), *(f"{key}={value!r}" for key, value in self.options.items())])

    def _check(self, labels: Tensor, references: References | None, tuples: object) -> None:
        name = self.entry.name
        if labels.ndim == 2 and self.entry.relation == "none":
            raise UserError(f"{name} has no meaning for a relation matrix; pass labels of shape (B,)")
        if references is not None and len(references.blocks) > 1 and not self.entry.memory:
            raise UserError(f"{name} cannot use a memory: its references are not samples; drop the memory")
        if tuples is not None and self.entry.accepts is None:
            raise UserError(f"{name} takes no mined tuples; call it without tuples=")

    def _mine(self, embeddings: Tensor, labels: Tensor, references: References | None) -> Pairs | Triplets:
        if self.miner is None:
            raise UserError("this loss was built without a miner")
        with torch.no_grad(), dense(), torch.autocast(embeddings.device.type, enabled=False):
            p = compare(embeddings, labels, references, sphere=True)
            parts = [
                (p.rows @ b.vectors.T, b.members("pos", p.row_labels), b.members("neg", p.row_labels))
                for b in p.references
            ]
            similarity, positive, negative = (torch.cat([part[i] for part in parts], 1) for i in range(3))  # type: ignore[misc]
            given = {"generator": generator_of(self.seed, int(self.draws)), "dim": embeddings.shape[1]}
            self.draws = self.draws + 1  # not in place: a state that somebody took stays as it is
            mine = partial(self.miner, **{key: given[key] for key in asked_for(self.miner)})
            found = (row_by_row if each_row(self.miner) else mined_jointly)(
                mine, similarity, positive, negative, p.references.joint
            )
        self.mined = found.counts()
        return found


def loss(
    name: str,
    *,
    num_classes: int | None = None,
    dim: int | None = None,
    class_ids: Iterable[int] | None = None,
    preset: str | None = None,
    miner: str | Miner | None = None,
    seed: int = 0,
    **options: OptionValue,
) -> Loss:
    """Build a loss by name.

    Args:
        name: a registered name; ``similis losses`` lists them.
        num_classes: number of training classes, for losses that learn class vectors.
        dim: embedding size, for losses that learn class vectors.
        class_ids: the training ids when labels are not 0 to C - 1; implies ``num_classes``.
        preset: ``paper``, ``thesis`` or ``thesis_tuned``; options given here come after it.
        miner: name of a miner, or a function (similarity, positive, negative) -> tuples.
        seed: of the generator that starts the class vectors, and of a miner's draws.
        **options: options of that loss, checked against its signature (see ``similis losses show``).

    Example:
        >>> import torch
        >>> criterion = loss("proxy_anchor", num_classes=3, dim=8)
        >>> value = criterion(torch.randn(6, 8), torch.tensor([0, 0, 1, 1, 2, 2]))
        >>> value.ndim
        0
    """
    entry = losses.get(name)
    chosen = preset_of(entry, preset)
    given = dict(chosen.options if chosen else {}) | checked_options(entry, options)
    ids = None if class_ids is None else sorted_ids(class_ids, num_classes)
    size = Size(num_classes if ids is None else len(ids), dim, torch.Generator().manual_seed(seed))
    learned, formula = {}, dict(given)
    for argument, make in entry.learns.items():
        own = {key: formula.pop(key) for key in keyword_defaults(make) if key in formula}
        start = make(size, **own)
        if isinstance(start, Tensor):
            learned[argument] = start
        elif start is not None:  # a plain number: this time the argument is a constant, not learned
            formula[argument] = start
    wanted = miner if miner is not None else (chosen.miner if chosen else None)
    return Loss(
        entry,
        {**keyword_options(entry), **formula},
        learned,
        class_ids=ids,
        miner=fitting_miner(entry, wanted),
        lr_multiplier=chosen.lr_multiplier if chosen else None,
        seed=seed,
    )


def keyword_options(entry: LossEntry) -> dict[str, OptionValue]:
    """Options of the formula alone, without what is learned."""
    return {k: v for k, v in keyword_defaults(entry.function).items() if k not in entry.learns}


def checked_options(entry: LossEntry, options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """Options as given; one that the loss does not have is answered with the nearest."""
    for key in options:
        if key not in entry.options:
            raise UserError(unknown(f"option of {entry.name}", key, entry.options))
    return dict(options)


def preset_of(entry: LossEntry, name: str | None) -> Preset | None:
    """The preset of that name, None for None."""
    if name is None:
        return None
    if name not in entry.presets:
        raise UserError(unknown(f"preset of {entry.name}", name, entry.presets))
    return entry.presets[name]


def rows_of(labels: Tensor, ids: Tensor) -> Tensor:
    """Row number of each label among sorted class ids; outside a compiled graph, strange labels are refused."""
    labels = checked_labels(labels, len(labels))
    rows = torch.searchsorted(ids, labels).clamp(max=len(ids) - 1)
    if not torch.compiler.is_compiling() and not torch.equal(ids[rows], labels):
        strange = labels[ids[rows] != labels][:5].tolist()
        raise UserError(f"labels {strange} are not among the {len(ids)} class_ids that the loss was built with")
    return rows


def sorted_ids(class_ids: Iterable[int], num_classes: int | None) -> Tensor:
    """Class ids in rising order as int64; repeated ids or a wrong number of them are refused."""
    ids = sorted(int(i) for i in class_ids)
    if len(set(ids)) != len(ids):
        raise UserError("class_ids repeat an id; pass each training id once")
    if num_classes is not None and num_classes != len(ids):
        raise UserError(f"num_classes is {num_classes} but there are {len(ids)} class_ids; pass only class_ids")
    return torch.tensor(ids, dtype=torch.int64)


def generator_of(seed: int, call: int, *more: int) -> torch.Generator:
    """A generator for one call of a miner; all numbers are mixed, for torch looks at 32 bits of a seed only."""
    mixed = np.random.SeedSequence([seed % 2**64, call, *more]).generate_state(1)
    return torch.Generator().manual_seed(int(mixed[0]))


def asked_for(miner: Miner) -> list[str]:
    """Which of ``generator`` and ``dim`` a miner has as an argument that nobody has set yet."""
    known = inspect.signature(miner).parameters
    return [
        key for key in ("generator", "dim") if key in known and known[key].default in (None, inspect.Parameter.empty)
    ]


def fitting_miner(entry: LossEntry, miner: str | Miner | None) -> Miner | None:
    """The miner by name, refused if its tuples are not those that the loss takes."""
    if miner is None or not isinstance(miner, str):
        return miner
    found = miners.get(miner)
    if found.returns != entry.accepts:
        fitting = [m.name for m in miners if m.returns == entry.accepts]
        raise UserError(f"{entry.name} cannot use the miner {miner!r}; it can use: {', '.join(fitting) or 'none'}")
    function: Miner = found.function
    return function
