"""A loss guided by the similarities of class names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from similis.objective.batch import find_class_rows, sort_class_ids
from similis.objective.host_copies import plan_on_host
from similis.objective.language import language
from similis.objective.loss import Loss
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.objective.wrappers.nested import Nested
from similis.values import UserError

Objective = Loss | Nested | CrossBatchMemory


class Guided(nn.Module):
    """``loss + weight * language``; see :func:`similis.objective.language.language`.

    Args:
        loss: may be nested, or have a memory.
        class_similarity: (C, C) similarities of the classes, rows in rising order of the class ids.
        class_ids: the training ids when labels are not 0 to C - 1.
        weight: of the guidance.

    Example:
        >>> import torch
        >>> from similis.objective.loss import loss
        >>> both = Guided(loss("multi_similarity"), torch.eye(3), weight=7.5)
        >>> both(torch.randn(6, 4), torch.tensor([0, 0, 1, 1, 2, 2])).ndim
        0
    """

    class_similarity: Tensor

    def __init__(
        self, loss: Objective, class_similarity: Tensor, *, class_ids: Iterable[int] | None = None, weight: float = 1.0
    ) -> None:
        super().__init__()
        if class_similarity.ndim != 2 or class_similarity.shape[0] != class_similarity.shape[1]:
            raise UserError(f"class_similarity has shape {tuple(class_similarity.shape)}; pass a square matrix (C, C)")
        self.loss, self.weight = loss, weight
        ids = None if class_ids is None else sort_class_ids(class_ids, len(class_similarity))
        self.register_buffer("class_similarity", class_similarity.clone())
        self.register_buffer("class_ids", ids)

    def forward(self, embeddings: Tensor, labels: Any, *, image_ids: Tensor | None = None) -> Tensor:
        """The guided loss of embeddings (B, D) and class ids (B,); image ids go to a memory."""
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
        rows = find_class_rows(labels, self.class_ids) if isinstance(self.class_ids, Tensor) else labels
        return value + self.weight * language(embeddings, rows, self.class_similarity)
