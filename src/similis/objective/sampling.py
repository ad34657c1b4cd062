"""A sample of the classes in the place of all: time and gradient of a step follow the sample, not C.

The classes of the batch are always there; of the N others, m are drawn, each of them counting as N / m.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from similis.objective.joining import communicator_here
from similis.objective.module import Loss, generator_of
from similis.objective.weights import weighted_classes
from similis.registry import losses
from similis.values import UserError


class SampledClasses(nn.Module):
    r"""A loss with class vectors over the classes of the batch and a share of the others.

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

    Args:
        loss: with class vectors; undivided, without a miner. Its parameters are trained.
        share: part of the other classes that is drawn, above 0 and at most 1, which is the loss itself.
        seed: of the draws; a draw is a function of the seed and of the number of calls before it.
        sparse: give the class vectors sparse gradients, of the rows that took part, for
            ``torch.optim.SparseAdam``: rows that were not drawn, and their moments, are not touched.

    Shapes: embeddings (B, D), labels (B,), or a relation (B, C) where the loss allows it -> ().

    Cost: time B (P + m) D for P classes in the batch, and a permutation of C numbers; memory beyond the
    weights (P + m) D, with ``sparse=False`` also the weights' gradient.

    When to use: from some hundred thousand classes on, where a step over all of them takes longer than
    the network. ProxyAnchor then loses nothing but noise. For a softmax draw as much as time
    allows, 0.1 or more, and read the value of the loss over all classes.

    Reference: Bengio, Senecal, Adaptive Importance Sampling to Accelerate Training of a Neural
    Probabilistic Language Model, 2008; An et al., Partial FC, 2021 (which has no factor N / m).

    Example:
        >>> import torch
        >>> from similis.objective.module import loss
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
        self.formula = Loss(loss.entry, loss.options, {})  # class vectors come from outside: those of the sample
        self.share = share
        self.seed = seed
        self.sparse = sparse
        self.register_buffer("draws", torch.zeros((), dtype=torch.int64))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch over a new sample of the classes."""
        if communicator_here() is not None:
            raise UserError("classes cannot be sampled inside joined(...): processes would draw for their own batches")
        rows = self.loss.class_rows(labels) if labels.ndim == 1 else labels
        present = classes_of(rows)
        drawn = draw_others(present, self.number, self.share, generator_of(self.seed, int(self.draws)))
        self.draws += 1
        return self.over(embeddings, rows, present, drawn)

    @property
    def number(self) -> int:
        """C, the number of all classes."""
        return len(next(value for value in self.loss.learned.values() if value.ndim > 1))

    def over(self, embeddings: Tensor, rows: Tensor, present: Tensor, drawn: Tensor) -> Tensor:
        """The loss over the classes ``present`` in the batch and those ``drawn``, which stand for all others.

        Args:
            embeddings: (B, D).
            rows: (B,) row numbers of the class vectors, or a relation (B, C).
            present: (P,) rising row numbers of the classes of the batch.
            drawn: (m,) other row numbers, each once.
        """
        kept, order = torch.cat([present, drawn]).sort()
        others = self.number - len(present)
        weights = embeddings.new_ones(len(kept), dtype=torch.float64)
        weights[order >= len(present)] = others / max(len(drawn), 1)
        learned = {key: Rows.apply(value, kept, self.sparse) for key, value in self.loss.learned.items()}  # type: ignore[no-untyped-call]
        labels = rows[:, kept] if rows.ndim == 2 else torch.searchsorted(kept, rows)
        wide = torch.promote_types(embeddings.dtype, torch.float32)
        with weighted_classes(weights.to(wide)):
            return self.formula.of(embeddings, labels, learned)


def check_sampled(loss: Loss) -> None:
    """Refuse a loss for which a sample of the classes means nothing, or that is divided over processes."""
    entry = loss.entry
    if entry.class_sampling == "none":
        known = ", ".join(other.name for other in losses if other.class_sampling != "none")
        why = "compares class vectors with all others" if loss.learned else "has no class vectors"
        raise UserError(f"the classes of {entry.name} cannot be sampled: it {why}; losses that can: {known}")
    if loss.classes is not None:
        raise UserError(f"the class vectors of {entry.name} are divided over processes; sample or divide, not both")


def classes_of(rows: Tensor) -> Tensor:
    """Row numbers of the classes of a batch, in rising order, each once."""
    return (rows > 0).any(0).nonzero()[:, 0] if rows.ndim == 2 else torch.unique(rows.long())


def draw_others(present: Tensor, number: int, share: float, generator: torch.Generator) -> Tensor:
    """Rows that are drawn without replacement among those that are not ``present``, all sets of them equally likely.

    Example:
        >>> import torch
        >>> draw_others(torch.tensor([0, 2]), 6, 1.0, torch.Generator().manual_seed(0)).sort().values.tolist()
        [1, 3, 4, 5]
    """
    outside = torch.ones(number, dtype=torch.bool)
    outside[present.cpu()] = False
    others = number - len(present)
    order = torch.randperm(number, generator=generator)
    wanted = min(others, max(1, round(share * others)))
    return order[outside[order]][:wanted].to(present.device)


class Rows(torch.autograd.Function):
    """Rows of class vectors, each at most once; their gradient is sparse on demand."""

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
