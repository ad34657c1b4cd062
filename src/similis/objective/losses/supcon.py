"""Supervised contrastive loss."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.comparison.compare import Comparison, compare
from similis.objective.references import References
from similis.objective.terms.reductions import Term, lse, safe_lse, total
from similis.objective.terms.tile import Tile
from similis.registry import Cost, Preset, Range, register_loss


@register_loss(
    family="pair",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B^2 D", memory="B D"),
    paper="Khosla, Teterwak, Wang, Sarna, Tian, Isola, Maschinot, Liu, Krishnan: "
    "Supervised Contrastive Learning, NeurIPS 2020",
    network="ResNet-50, 128",
    weight="S, P and N: softmax weight among all other samples, less an equal share of each positive",
    relation="graded",
    memory=True,
    presets={"paper": Preset({"temperature": 0.1}, "Khosla et al., section 4")},
    space={"temperature": Range(0.02, 1.0, log=True)},
)
def supcon(
    embeddings: Tensor,
    labels: Tensor,
    *,
    references: References | None = None,
    temperature: float = 0.1,
) -> Tensor:
    r"""Each positive should win a softmax over all other samples; mean over an anchor's positives.

    .. math::
        \ell_i = \log \sum_{k \ne i} e^{S_{ik} / T}
               - \sum_{j \in P_i} \frac{g_{ij}}{\sum_{q \in P_i} g_{iq}} \, \frac{S_{ij}}{T}

    averaged over the anchors that have a positive. This is the form with the sum outside the
    logarithm. With labels every grade g is 1; a relation matrix weights positives by its grades,
    and its columns below 0 (neither positive nor negative) are left out of the softmax too. The
    official code multiplies by T / 0.07, a constant that belongs to the learning rate.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,), or a relation (B, B) with grades.
        references: batch and memory; None for the batch.
        temperature: T, 0.1 in the paper.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: class-balanced batches, the larger the better; a steady choice without a miner, and
    the natural one for graded similarity.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> round(float(supcon(x, torch.tensor([0, 0, 1]), temperature=1.0)), 4)  # log(1 + 1/e)
        0.3133
    """
    p = compare(embeddings, labels, references, sphere=True)
    return p.mean(*positive_softmax(p, temperature))


def positive_softmax(
    p: Comparison, temperature: Tensor | float, beside: Comparison | None = None
) -> tuple[Tensor, Tensor]:
    """Of each row the log-sum-exp over all columns less the mean positive, by grade, and whether it has a positive.

    Args:
        p: rows and columns; a relation's columns below 0 are left out.
        temperature: T; a tensor () is differentiated.
        beside: further negatives of the same rows.
    """
    values = (temperature.expand(len(p.rows)),) if isinstance(temperature, Tensor) else ()

    def graded(t: Tile, own: Tensor | float = temperature) -> tuple[Term, ...]:
        logits = t.s / own
        grade = (torch.ones_like(logits) * t.grade).to(logits.dtype)
        return lse(logits), total(grade * logits), total(grade)

    def logits(t: Tile, own: Tensor | float = temperature) -> Term:
        return lse(t.s / own)

    near, pull, weight = p.over("pos", graded, values)
    sets = [near, p.over("neg", logits, values)]
    if beside is not None:
        sets.append(beside.over("neg", logits, values))
    some = weight > 0
    return safe_lse(torch.stack(sets, 1)) - pull / torch.where(some, weight, 1.0), some
