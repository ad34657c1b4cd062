"""Language guidance. Roth, Vinyals, Akata: Integrating Language Guidance into Vision-based DML, CVPR 2022."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from similis.objective.comparison.compare import compare
from similis.objective.references import References
from similis.objective.terms.reductions import Term, lse, total
from similis.objective.terms.tile import Tile


def language(
    embeddings: Tensor,
    labels: Tensor,
    class_similarity: Tensor,
    *,
    references: References | None = None,
    shift: float = 1.0,
    temperature: float = 1.0,
    direction: Literal["image_to_language", "language_to_image"] = "image_to_language",
) -> Tensor:
    r"""Rows of image similarities shall be distributed as the similarities of their class names.

    .. math::
        L = \frac{T^2}{B} \sum_i \sum_j p_{ij} \log \frac{p_{ij}}{q_{ij}}, \quad
        p_i = \mathrm{softmax}_j(S_{ij} / T), \; q_i = \mathrm{softmax}_j((S^L_{y_i y_j} + \gamma) / T)

    where entries of one class, the diagonal among them, are :math:`1 + \gamma` in both matrices.
    Without that mask the shift would cancel in the softmax and do nothing.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,) row numbers of ``class_similarity``.
        class_similarity: (C, C), of text vectors, attributes or a taxonomy; gets no gradient.
        references: columns to compare with; None for the batch.
        shift: gamma.
        temperature: T.
        direction: KL(image || language), the default of paper and code, or its reverse.

    Shapes: embeddings (B, D), labels (B,), class_similarity (C, C) -> ().

    When to use: fine-grained classes with speaking names, beside a pair or proxy loss, weight 5 to 10.

    Cost: time B^2 D, memory B D + C^2.

    Reference: Roth, Vinyals, Akata: Integrating Language Guidance into Vision-based Deep Metric Learning, CVPR 2022;
        Eq. 28 to 30 of the survey.

    Example:
        >>> import torch
        >>> names = torch.eye(3)
        >>> round(float(language(torch.eye(3), torch.tensor([0, 1, 2]), names)), 4)
        0.0989
    """
    p = compare(embeddings, labels, references, sphere=True)
    peak = (1 + shift) / temperature

    def logits(t: Tile) -> tuple[Tensor, Tensor]:
        words = (t.of_classes(class_similarity.detach().to(t.s.dtype)) + shift) / temperature
        return torch.where(t.same, peak, t.s / temperature), torch.where(t.same, peak, words)

    def normalisers(t: Tile) -> tuple[Term, ...]:
        image, words = logits(t)
        return lse(image), lse(words)

    def divergence(t: Tile, image_norm: Tensor, words_norm: Tensor) -> Term:
        image, words = logits(t)
        image, words = image - image_norm, words - words_norm
        if direction == "image_to_language":
            return total(image.exp() * (image - words))
        return total(words.exp() * (words - image))

    return temperature**2 * p.mean(p.every(divergence, rows=p.every(normalisers)))
