"""A sample of the classes instead of all: time and gradient of a step follow the sample, not C.

The classes of the batch are always there; of the N others, m are drawn, each of them counting as N / m.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from similis.objective.batch import check_rows
from similis.objective.context import Partition, current_context, draw_number, use_context
from similis.objective.host_copies import fetch_to_host, known_on_host, on_host, plan_on_host
from similis.objective.loss import Loss
from similis.objective.mining import make_generator
from similis.registry import losses
from similis.values import UserError


class SampledClasses(nn.Module):
    r"""A loss with proxies over the classes of the batch and a share of the others.

    Of the N classes that no sample of the batch belongs to, m = max(1, round(share N)) are drawn without
    replacement, anew in each call; in sums over classes each counts as N / m, the classes of the batch as 1.

    **Unbiased for ProxyAnchor.** Its push is a mean over all C proxies, so it is linear in the terms of
    the single classes; the pull meets classes of the batch alone. The mean over all draws is the
    loss, and so is that of the gradients, of samples and proxies.

    **Biased for losses of the softmax kind** (``similis losses show`` tells). The sampled sum
    :math:`\hat Z = \sum_{c \in P} e^{z_c} + \frac{N}{m} \sum_{c \in S} e^{z_c}` has the right mean, but the loss
    is a logarithm of it, and :math:`E \log \hat Z \le \log E \hat Z` (Jensen): values are too small on
    average, by about half the relative variance of :math:`\hat Z`, which falls as 1 / m. Gradients are biased
    too. Without the factor N / m every single draw would be too small.

    **Ranks.** Inside ``distributed`` the classes of the batch are those of the global batch. If every rank has
    all classes, all draw the same ones, which are those that one process draws. If the proxies are sharded
    (``sharding.shard``), each rank draws among the N it owns, m of them with its own N and m, so all
    have the same work. That is a stratified sample: ProxyAnchor stays unbiased, and the other losses
    have the bias above, with the variance of the stratified sum.

    Args:
        loss: with proxies, whole or sharded over ranks; without a miner. Its parameters are trained.
        share: part of the other classes that is drawn, above 0 and at most 1, which is the loss itself.
        seed: of the draws; a draw is a function of the seed and of the number of calls before it, for sharded
            proxies also of the rank.
        sparse: give the proxies sparse gradients, of the rows that took part, for
            ``torch.optim.SparseAdam``: rows that were not drawn, and their moments, are not touched.

    Shapes: embeddings (B, D), labels (B,), or a relation (B, C) where the loss allows it -> ().

    Cost: time B (P + m) D for P classes in the batch, and a permutation of C numbers; memory beyond the
    weights (P + m) D, with ``sparse=False`` also the weights' gradient. Of sharded proxies each rank has its
    own alone, and the numbers of the P + m kept ones are gathered.

    When to use: from some hundred thousand classes on, where a step over all of them takes longer than
    the network. ProxyAnchor then loses nothing but noise. For a softmax draw as much as time
    allows, 0.1 or more, and read the value of the loss over all classes.

    Reference: Bengio, Senecal, Adaptive Importance Sampling to Accelerate Training of a Neural
    Probabilistic Language Model, 2008; An et al., Partial FC, 2021 (which has no factor N / m).

    Example:
        >>> import torch
        >>> from similis.objective.loss import loss
        >>> few = SampledClasses(loss("proxy_anchor", num_classes=1000, dim=8), share=0.01, sparse=True)
        >>> few(torch.randn(6, 8), torch.tensor([0, 0, 1, 1, 2, 2])).backward()
        >>> few.loss.learned["proxies"].grad.coalesce().indices().numel()  # 3 classes of the batch, 1 % of 997 others
        13
    """

    draws: Tensor

    def __init__(self, loss: Loss, share: float, *, seed: int = 0, sparse: bool = False) -> None:
        super().__init__()
        if not 0 < share <= 1:
            raise UserError(f"share is {share}; pass a part of the classes above 0 and at most 1, for example 0.1")
        check_sampled(loss)
        self.loss = loss
        self.formula = Loss(loss.entry, loss.options, {})  # proxies come from outside: those of the sample
        self.share = share
        self.seed = seed
        self.sparse = sparse
        self.register_buffer("draws", torch.zeros((), dtype=torch.int64))

    def forward(self, embeddings: Tensor, labels: Any, *, image_ids: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The loss of a batch over a new sample of the classes."""
        if torch.compiler.is_compiling():
            from similis.objective.terms.untraced import eagerly  # imports the compiler

            return eagerly(self._forward, embeddings, labels)  # type: ignore[no-any-return]
        with self.loss.join_ranks():
            return self._forward(embeddings, labels)

    def _forward(self, embeddings: Tensor, labels: Any) -> Tensor:
        labels = self.loss.encode(labels)
        classes, communicator = self.loss.classes, current_context().communicator
        if classes is not None and communicator is None:
            raise UserError("the proxies are sharded over ranks; call the loss inside distributed(communicator)")
        if classes is None and communicator is not None and self.sparse:
            raise UserError("sparse gradients cannot be averaged over ranks; use sparse=False or shard the proxies")
        if embeddings.is_cpu:
            return self._sampled(embeddings, labels)
        with plan_on_host(embeddings, labels) as here:
            fetch_to_host(self.draws, here)
            return self._sampled(embeddings, here)

    def _sampled(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        classes = self.loss.classes
        rows = self.loss.class_rows(labels) if labels.ndim == 1 else labels
        rows = check_rows(rows, self.number if classes is None else classes.size)
        present = classes_of_all(rows)
        which = () if classes is None else (classes.communicator.rank,)
        generator = make_generator(self.seed, draw_number(self), *which)
        drawn = self.first + draw_others(self.own_rows(present), self.number, self.share, generator)
        return self.over(embeddings, rows, present, drawn)

    @property
    def number(self) -> int:
        """Number of the proxies of this rank: C, or its share."""
        return len(next(value for value in self.loss.learned.values() if value.ndim > 1))

    @property
    def first(self) -> int:
        """Number of this rank's first class among all."""
        return 0 if self.loss.classes is None else self.loss.classes.first

    def own_rows(self, classes: Tensor) -> Tensor:
        """Those of the classes that this rank has, as rows of its proxies."""
        rows = classes - self.first
        return rows[(rows >= 0) & (rows < self.number)]

    def over(self, embeddings: Tensor, rows: Tensor, present: Tensor, drawn: Tensor) -> Tensor:
        """The loss over the classes ``present`` in the batch and those ``drawn``, which stand for all others.

        Args:
            embeddings: (B, D).
            rows: (B,) class numbers, or a relation (B, C).
            present: (P,) rising numbers of the classes of the batch, that of all ranks; on the host.
            drawn: (m,) other class numbers, each once; of sharded proxies those of this rank; on the host.
        """
        here = self.own_rows(present)
        chosen, order = torch.cat([here, self.own_rows(drawn)]).sort()
        kept, others = torch.stack([chosen, (order >= len(here)).long()]).to(embeddings.device)
        known_on_host(kept, chosen)
        wide = torch.promote_types(embeddings.dtype, torch.float32)
        weights = embeddings.new_ones(len(kept), dtype=wide)
        weights.masked_fill_(others.bool(), (self.number - len(here)) / max(len(drawn), 1))
        learned = {key: Rows.apply(value, kept, self.sparse) for key, value in self.loss.learned.items()}  # type: ignore[no-untyped-call]
        share = self._divided(len(kept))
        names = kept if share is None else share.gather(kept + self.first)  # rising: a share is a stretch of classes
        labels = rows[:, names] if rows.ndim == 2 else torch.searchsorted(names, rows)
        if rows.ndim == 1 and not rows.is_cpu:
            known_on_host(labels, torch.searchsorted(on_host(names), on_host(rows)))
        with use_context(replace(current_context(), class_weights=weights)):
            return self.formula.of(embeddings, labels, learned, classes=share)

    def _divided(self, kept: int) -> Partition | None:
        """How the kept classes are sharded over ranks, of which this one keeps so many; None if they are not."""
        classes = self.loss.classes
        return None if classes is None else Partition(classes.communicator, classes.communicator.counts(kept))


def check_sampled(loss: Loss) -> None:
    """Refuse a loss for which a sample of the classes means nothing."""
    entry = loss.entry
    if entry.class_sampling == "none":
        known = ", ".join(other.name for other in losses if other.class_sampling != "none")
        why = "compares proxies with all others" if loss.learned else "has no proxies"
        raise UserError(f"the classes of {entry.name} cannot be sampled: it {why}; losses that can: {known}")


def classes_of(rows: Tensor) -> Tensor:
    """Row numbers of the classes of a batch, in rising order, each once; on the host."""
    return (rows > 0).any(0).nonzero()[:, 0].cpu() if rows.ndim == 2 else torch.unique(on_host(rows).long())


def classes_of_all(rows: Tensor) -> Tensor:
    """As :func:`classes_of`, of the batches of all ranks."""
    joint = current_context().partition(len(rows))
    if joint is None:
        return classes_of(rows)
    if rows.ndim == 1:
        return classes_of(joint.gather(on_host(rows)))
    return joint.communicator.sum((rows > 0).any(0).long()).nonzero()[:, 0].cpu()


def draw_others(present: Tensor, number: int, share: float, generator: torch.Generator) -> Tensor:
    """Rows that are drawn without replacement among those that are not ``present``, all sets of them equally likely.

    Example:
        >>> import torch
        >>> draw_others(torch.tensor([0, 2]), 6, 1.0, torch.Generator().manual_seed(0)).sort().values.tolist()
        [1, 3, 4, 5]
    """
    outside = torch.ones(number, dtype=torch.bool, device="cpu")
    outside[present.cpu()] = False
    others = number - len(present)
    order = torch.randperm(number, generator=generator, device="cpu")
    wanted = min(others, max(1, round(share * others)))
    return order[outside[order]][:wanted].to(present.device)


class Rows(torch.autograd.Function):
    """Rows of proxies, each at most once; their gradient is sparse on demand."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, rows: Tensor, sparse: bool) -> Tensor:
        """Vectors (C, ...) and m row numbers -> (m, ...)."""
        ctx.rows, ctx.sparse, ctx.shape = rows, sparse, vectors.shape
        return vectors.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """The rows' gradient as that of all vectors."""
        if ctx.sparse:
            # rows rise and none comes twice, so nothing has to be added up
            whole = torch.sparse_coo_tensor(
                ctx.rows[None], gradients[0], ctx.shape, is_coalesced=True, check_invariants=False
            )
            return whole, None, None
        return gradients[0].new_zeros(ctx.shape).index_copy_(0, ctx.rows, gradients[0]), None, None
