"""Nested sizes: one embedding whose first coordinates are embeddings too."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from similis.objective.host_copies import plan_on_host
from similis.objective.loss import Loss
from similis.objective.references import References
from similis.values import UserError


class Nested(nn.Module):
    r"""Mean of a loss over the leading parts of the embedding.

    .. math::
        L = \frac{1}{|M|} \sum_{m \in M} L_0(x_{1 \dots m}, W_{1 \dots m})

    Each part is put on the sphere anew if the loss does so, proxies are cut alike, and a miner
    mines for each size. One size equal to the whole is the loss itself.

    Args:
        loss: any loss of the registry.
        sizes: the sizes m, rising, the largest at most the embedding's.

    Shapes: embeddings (B, D), labels (B,) -> ().

    Reference: Kusupati et al., Matryoshka Representation Learning, NeurIPS 2022.

    Example:
        >>> import torch
        >>> from similis.objective.loss import loss
        >>> nested = Nested(loss("triplet"), sizes=(2, 4))
        >>> nested(torch.randn(6, 4), torch.tensor([0, 0, 1, 1, 2, 2])).ndim
        0
    """

    def __init__(self, loss: Loss, sizes: Sequence[int]) -> None:
        super().__init__()
        if not sizes or sorted(set(sizes)) != list(sizes) or sizes[0] < 1:
            raise UserError(f"sizes are {tuple(sizes)}; pass rising sizes from 1, for example (64, 128, 512)")
        self.loss = loss
        self.sizes = tuple(sizes)

    def forward(
        self,
        embeddings: Tensor,
        labels: Any,
        *,
        image_ids: Tensor | None = None,  # noqa: ARG002
        references: References | None = None,
    ) -> Tensor:
        """The mean over the sizes."""
        if embeddings.shape[1] < self.sizes[-1]:
            raise UserError(
                f"embeddings have {embeddings.shape[1]} dimensions and the largest size is {self.sizes[-1]}; "
                "choose sizes up to the embedding's"
            )
        with self.join_ranks():
            labels = self.encode(labels, references)
            if embeddings.is_cpu or torch.compiler.is_compiling():
                return self._mean(embeddings, labels, references)
            with plan_on_host(embeddings, labels) as here:
                return self._mean(embeddings, here, references)

    def join_ranks(self) -> AbstractContextManager[None]:
        """Inside, losses see the batches of the ranks that the loss inside was built for."""
        return self.loss.join_ranks()

    def encode(self, labels: Any, references: object = None) -> Tensor:
        """Labels as a tensor, as the loss inside encodes them."""
        return self.loss.encode(labels, references)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """The optimiser groups of the loss inside."""
        return self.loss.parameter_groups(lr)

    def _mean(self, embeddings: Tensor, labels: Tensor, references: References | None) -> Tensor:
        total = embeddings.new_zeros(())
        for size in self.sizes:
            learned = {key: value[..., :size] if value.ndim > 1 else value for key, value in self.loss.learned.items()}
            cut = None if references is None else references.cut(size)
            total = total + self.loss.of(embeddings[:, :size], labels, learned, references=cut)
        return total / len(self.sizes)
