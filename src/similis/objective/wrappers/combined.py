"""A loss with weighted terms beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from similis.objective.batch import find_class_rows, sort_class_ids
from similis.objective.host_copies import plan_on_host
from similis.objective.loss import Loss
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.objective.wrappers.nested import Nested
from similis.registry import RegulariserEntry, check_known, regularisers
from similis.values import OptionValue, UserError

Objective = Loss | Nested | CrossBatchMemory


class Regulariser(nn.Module):
    """A registered regulariser with its options and its class-similarity matrix."""

    class_similarity: Tensor

    def __init__(
        self,
        entry: RegulariserEntry,
        class_similarity: Tensor,
        options: dict[str, OptionValue],
        class_ids: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.entry = entry
        self.options = options
        self.register_buffer("class_similarity", class_similarity.clone())
        self.register_buffer("class_ids", class_ids)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The term for embeddings (B, D) and class ids (B,)."""
        if isinstance(self.class_ids, Tensor):
            labels = find_class_rows(labels, self.class_ids)
        value: Tensor = self.entry.function(embeddings, labels, self.class_similarity, **self.options)
        return value


class Combined(nn.Module):
    """``loss + w1 * term1 + w2 * term2 ...``; the parameters of all of them.

    Example:
        >>> import torch
        >>> from similis.objective.loss import loss
        >>> words = regulariser("language", class_similarity=torch.eye(3))
        >>> both = Combined(loss("multi_similarity"), [(7.5, words)])
        >>> both(torch.randn(6, 4), torch.tensor([0, 0, 1, 1, 2, 2])).ndim
        0
    """

    def __init__(self, loss: Objective, terms: Sequence[tuple[float, Regulariser]]) -> None:
        super().__init__()
        self.loss = loss
        self.weights = tuple(weight for weight, _ in terms)
        self.terms = nn.ModuleList([term for _, term in terms])

    def forward(self, embeddings: Tensor, labels: Any, *, image_ids: Tensor | None = None) -> Tensor:
        """The weighted sum for embeddings (B, D) and class ids (B,); image ids go to a memory."""
        with self.loss.join_ranks():
            labels = self.loss.encode(labels)
            if embeddings.is_cpu or torch.compiler.is_compiling():
                return self._sum(embeddings, labels, image_ids)
            with plan_on_host(embeddings, labels) as here:
                return self._sum(embeddings, here, image_ids)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """The optimiser groups of the loss inside."""
        return self.loss.parameter_groups(lr)

    def _sum(self, embeddings: Tensor, labels: Tensor, image_ids: Tensor | None) -> Tensor:
        value: Tensor = self.loss(embeddings, labels, image_ids=image_ids)
        for weight, term in zip(self.weights, self.terms, strict=True):
            value = value + weight * term(embeddings, labels)
        return value


def regulariser(
    name: str, *, class_similarity: Tensor, class_ids: Iterable[int] | None = None, **options: OptionValue
) -> Regulariser:
    """Build a regulariser by name.

    Args:
        name: a registered name (``language``).
        class_similarity: (C, C) similarities of the classes, rows in rising order of the class ids.
        class_ids: the training ids when labels are not 0 to C - 1.
        **options: options of the regulariser, checked against its signature.
    """
    entry = regularisers.get(name)
    for key in options:
        check_known(f"option of {name}", key, entry.options)
    if class_similarity.ndim != 2 or class_similarity.shape[0] != class_similarity.shape[1]:
        raise UserError(f"class_similarity has shape {tuple(class_similarity.shape)}; pass a square matrix (C, C)")
    ids = None if class_ids is None else sort_class_ids(class_ids, len(class_similarity))
    return Regulariser(entry, class_similarity, dict(options), ids)
