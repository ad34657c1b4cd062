"""A loss as a module: the formula of a registered loss with its options and what it learns."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from similis.introspection import keyword_defaults
from similis.objective.batch import (
    Side,
    check_embeddings,
    encode_batch,
    find_class_rows,
    hash_names,
    make_side,
    on_load,
    resolve_classes,
    spoil_strangers,
    warns_of_lonely,
)
from similis.objective.class_shards import value_of_shards
from similis.objective.comparison.proxies import Size
from similis.objective.context import Partition, current_context, draw_number
from similis.objective.documents import document_references, encode_sides
from similis.objective.host_copies import plan_on_host, share_host_copies
from similis.objective.loss_options import check_options, get_preset
from similis.objective.mining import Miner, check_call, check_found, mine_tuples, resolve_miner
from similis.objective.ranks import Ranks, join_ranks, share_batch
from similis.objective.references import References, batch_references
from similis.registry import LossEntry, losses
from similis.sphere import widen
from similis.values import Counts, Options, OptionValue, Pairs, Triplets, UserError

BUILT_WITH = ("class_ids", "dim", "num_classes")  # what a loss with proxies is given beside its options
Given = tuple[References | None, Pairs | Triplets | None]  # what a call names instead of its batch and its miner


class Loss(nn.Module):
    """Call it with embeddings (B, D) and labels (B,); it returns a scalar.

    Proxies and learned margins are its parameters: hand them to the optimiser, for example by :meth:`parameter_groups`.
    ``mined`` tells what the miner found at the last call. An empty batch has the loss 0 and gradients of 0; a rank
    without rows takes part in the batch of all ranks.
    """

    def __init__(
        self,
        entry: LossEntry,
        options: Options,
        learned: Mapping[str, Tensor],
        *,
        class_ids: Tensor | None = None,
        names: Mapping[Hashable, int] | None = None,
        miner: Miner | None = None,
        lr_multiplier: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.entry = entry
        self.plain = copy.deepcopy(entry.plain) if isinstance(entry.plain, nn.Module) else None  # its own parameters
        self.options = dict(options)
        self.learned = nn.ParameterDict({name: nn.Parameter(value) for name, value in learned.items()})
        self.register_buffer("class_ids", class_ids)
        self.names = names  # class -> row, where class ids are no integers
        self.register_buffer("names_digest", None if names is None else hash_names(names))
        self.known_ids: Tensor | None = None  # the same on the host, fetched once
        self.register_load_state_dict_post_hook(on_load)  # type: ignore[no-untyped-call]
        self.miner = miner
        self.seed = seed
        self.draws: Tensor  # how often the miner was called: with the seed, the whole state of its draws
        self.register_buffer("draws", None if miner is None else torch.zeros((), dtype=torch.int64))
        self.lr_multiplier = entry.lr_multiplier if lr_multiplier is None else lr_multiplier
        self.mined: Counts | None = None
        self.lonely = False  # whether it has warned of a batch without positives
        self.classes: Partition | None = None  # how the proxies are sharded over ranks (see ``sharding``)
        self.ranks: Ranks | None = None  # whose batches it sees; None for those of the context

    def forward(
        self,
        embeddings: Tensor,
        labels: Any = None,
        *,
        documents: Tensor | None = None,
        document_labels: Any = None,
        negatives: Tensor | None = None,
        image_ids: Tensor | None = None,  # noqa: ARG002
        references: References | None = None,
        tuples: Pairs | Triplets | None = None,
    ) -> Tensor:
        """The loss of a batch.

        Args:
            embeddings: (B, D), any floating point type.
            labels: (B,) integer class ids, on any device; a relation (B, B) where the loss allows it; or a list of any
                hashable values, such as strings. A loss that learns proxies wants those named in ``class_ids``.
            documents: (M, D) that the embeddings are compared with: row i belongs to row i, or equal labels together.
            document_labels: (M,) as ``labels``; None for those of the embeddings.
            negatives: hard negatives beside the documents, (N, D) shared by all rows, or (B, K, D), K for each row.
            image_ids: (B,) of the images; every objective takes them, a memory needs them.
            references: what the anchors are compared with; None for the batch itself.
            tuples: pairs or triplets to restrict the loss to, instead of the miner's.
        """
        if (side := make_side(documents, document_labels, negatives)) is not None:
            if references is not None or tuples is not None:
                raise UserError("documents= cannot be combined with references= or tuples=; drop one of them")
            return self._of_sides(embeddings, labels, side)
        if labels is None:
            raise UserError("labels are None; give one for each row, any hashable values, or pass documents=")
        return self.of(embeddings, labels, dict(self.learned.items()), references=references, tuples=tuples)

    def of(
        self,
        embeddings: Tensor,
        labels: Any,
        learned: Mapping[str, Tensor],
        *,
        references: References | None = None,
        tuples: Pairs | Triplets | None = None,
    ) -> Tensor:
        """The loss with other values instead of its parameters (cut ones, for nested sizes)."""
        if self.ranks is not None and current_context().communicator is None and self.ranks.find() is not None:
            with self.join_ranks():
                return self.of(embeddings, labels, learned, references=references, tuples=tuples)
        check_embeddings(embeddings, learned)
        labels = labels if isinstance(labels, Tensor) else self.encode(labels, references)
        if references is not None or tuples is not None or labels.ndim == 2:
            check_call(self.entry, labels, references, tuples)
        if current_context().communicator is not None:
            return self._on_ranks(embeddings, labels, learned, (references, tuples))
        if embeddings.is_cpu or torch.compiler.is_compiling():
            return self._value(embeddings, labels, learned, (references, tuples))
        with plan_on_host(embeddings, labels) as here:
            return self._value(embeddings, here, learned, (references, tuples))

    def _of_sides(self, queries: Tensor, labels: Any, side: Side) -> Tensor:
        """The loss of queries whose columns are documents."""
        labels, side = encode_sides(self.entry, self.learned.values(), self.encode, labels, side)
        if self.learned and side.labels is not None:
            side = side._replace(labels=self.class_rows(side.labels))
        with self.join_ranks(), share_host_copies():
            names, references = document_references(queries, labels, side)
            value = self.of(queries, names, dict(self.learned.items()), references=references)
        return value + (side.documents.detach() * 0).sum().to(value.dtype)  # a NaN among them must reach the value

    def join_ranks(self) -> AbstractContextManager[None]:
        """Inside, losses see the batches of the ranks that this loss was built for."""
        return join_ranks(self.ranks)

    def _on_ranks(self, embeddings: Tensor, labels: Tensor, learned: Mapping[str, Tensor], given: Given) -> Tensor:
        """As :meth:`of`, of the rows of all ranks."""
        if self.entry.plain is not None:
            raise UserError(f"{self.entry.name} is a plain function, which sees the rows of one process; use one rank")
        with (
            share_batch(self.entry.name, embeddings, learned, sharded=self.classes is not None) as averaged,
            plan_on_host(embeddings, labels) as here,
        ):
            return self._value(embeddings, here, averaged, given)

    def _value(self, embeddings: Tensor, labels: Tensor, learned: Mapping[str, Tensor], given: Given) -> Tensor:
        """As :meth:`of`, with labels where the embeddings are."""
        references, tuples = given
        if not len(embeddings) and current_context().communicator is None:
            self.mined = None if self.miner is None else Counts(0, 0)
            return sum((0 * value.sum() for value in learned.values()), 0 * widen(embeddings).sum())
        if self.class_ids is not None and (learned or self.plain is not None) and labels.ndim == 1:
            labels = self.class_rows(labels)
        arguments: dict[str, Any] = dict(self.options) | dict(learned)
        if self.miner is not None and tuples is None:
            if references is None and current_context().communicator is not None:  # gathered once for miner and loss
                references = batch_references(embeddings, labels)
            tuples = mine_tuples(self.miner, embeddings, labels, references, (self.seed, draw_number(self)))
            check_found(tuples, self.entry)
            self.mined = tuples.counts()
        if tuples is not None:
            arguments["tuples"] = tuples
        if references is not None:
            arguments["references"] = references
        if self.classes is not None:
            return value_of_shards(self.entry, embeddings, labels, arguments, self.classes)
        value: Tensor = (self.entry.function if self.plain is None else self.plain)(embeddings, labels, **arguments)
        if value.ndim:
            raise UserError(f"{self.entry.name} returned the shape {tuple(value.shape)}; a loss is one number: p.mean")
        if torch.compiler.is_compiling():
            value = spoil_strangers(value, labels, learned)
        elif not (self.lonely or self.entry.learns) and references is None and current_context().communicator is None:
            self.lonely = warns_of_lonely(self.entry, value, labels)
        # comparisons drop what is no number; a network that has diverged must not look converged
        return value + (embeddings.detach() * 0).sum().to(value.dtype)

    def shared_parameters(self) -> list[nn.Parameter]:
        """Parameters that every rank has whole: those whose gradients are averaged over ranks."""
        return [p for p in self.learned.values() if self.classes is None or p.ndim <= 1]

    def class_rows(self, labels: Tensor) -> Tensor:
        """Row numbers of the proxies for class ids; ids outside ``class_ids`` are refused."""
        if not isinstance(self.class_ids, Tensor):
            return labels
        if labels.is_cpu or torch.compiler.is_compiling():
            return find_class_rows(labels, self.class_ids)
        self.known_ids = self.class_ids.cpu() if self.known_ids is None else self.known_ids
        return find_class_rows(labels, self.class_ids, self.known_ids)

    def encode(self, labels: Any, references: object = None) -> Tensor:
        """Labels as a tensor; those that are no integers need ``class_ids`` where one batch does not know them all.

        That is with ``references``, over ranks, and where the loss learns something for each class.
        """
        if isinstance(labels, Tensor):
            return labels
        others = references is not None or current_context().communicator is not None
        why = f"{self.entry.name} compares with other batches or ranks" if others else ""
        if any(value.ndim for value in self.learned.values()):
            why = f"{self.entry.name} learns something for each class"
        return encode_batch(labels, self.names, why)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """One optimiser group with the rate ``lr`` times the loss's multiplier; none without parameters."""
        own = list(self.parameters())
        return [{"params": own, "lr": lr * self.lr_multiplier}] if own else []

    def extra_repr(self) -> str:
        """Name, options but ``mined`` where a miner overrides it, and the miner, for ``print(loss)``."""
        words = [f"{key}={value!r}" for key, value in self.options.items() if self.miner is None or key != "mined"]
        if self.miner is not None:
            words.append(f"miner={getattr(self.miner, '__name__', self.miner)!r}")
        return ", ".join([repr(self.entry.name), *words])


def loss(
    name: str,
    *,
    num_classes: int | None = None,
    dim: int | None = None,
    class_ids: Iterable[Hashable] | None = None,
    preset: str | None = None,
    miner: str | Miner | None = None,
    seed: int = 0,
    distributed: bool = False,
    group: object = None,
    **options: OptionValue,
) -> Loss:
    """Build a loss by name.

    Args:
        name: a registered name; ``similis losses`` lists them.
        num_classes: number of training classes, for losses that learn proxies.
        dim: embedding size, for losses that learn proxies.
        class_ids: the training classes when labels are not 0 to C - 1, integers or any hashable values; implies
            ``num_classes``. The proxies are in their sorted order, whatever the order given.
        preset: ``paper``, ``thesis`` or ``thesis_tuned``; options given here come after it.
        miner: name of a miner, or a function (similarity, positive, negative) -> tuples.
        seed: of the generator that starts the proxies, and of a miner's draws.
        distributed: every rank calls the loss with its own rows and gets the loss of the global batch, gradients of
            what it learns included; ``DistributedDataParallel`` does the same for those of the network.
        group: a ``torch.distributed`` process group instead of that of all processes.
        **options: options of that loss, checked against its signature (see ``similis losses show``).

    Example:
        >>> import torch
        >>> criterion = loss("proxy_anchor", num_classes=3, dim=8)
        >>> criterion(torch.randn(6, 8), torch.tensor([0, 0, 1, 1, 2, 2])).ndim
        0
    """
    entry = losses.get(name)
    chosen = get_preset(entry, preset)
    given = dict(chosen.options if chosen else {}) | check_options(entry, options, BUILT_WITH if entry.learns else ())
    names, ids = resolve_classes(class_ids, num_classes)
    known = names if ids is None else ids
    size = Size(num_classes if known is None else len(known), dim, torch.Generator().manual_seed(seed))
    learned, formula = {}, dict(given)
    for argument, make in entry.learns.items():
        own = {key: formula.pop(key) for key in keyword_defaults(make) if key in formula}
        start = make(size, **own)
        if isinstance(start, Tensor):
            learned[argument] = start
        elif start is not None:  # a plain number: this time the argument is a constant, not learned
            formula[argument] = start
    wanted = miner if miner is not None else (chosen.miner if chosen else None)
    plain = {key: value for key, value in keyword_defaults(entry.function).items() if key not in entry.learns}
    made = Loss(
        entry, plain | formula, learned, class_ids=ids, names=names,
        miner=resolve_miner(entry, wanted), lr_multiplier=chosen.lr_multiplier if chosen else None, seed=seed,
    )  # fmt: skip
    made.ranks = Ranks(group) if distributed else None
    return made
