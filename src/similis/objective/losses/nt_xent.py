"""NT-Xent with labels, the loss of SimCLR."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.comparison.compare import compare
from similis.objective.references import References
from similis.objective.terms.reductions import Term, count, lse, softplus, total
from similis.objective.terms.tile import Tile
from similis.registry import Cost, Preset, Range, register_loss


@register_loss(
    family="pair",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B^2 D", memory="B D"),
    paper="Chen, Kornblith, Norouzi, Hinton: A Simple Framework for Contrastive Learning of Visual Representations, "
    "ICML 2020",
    network="ResNet-50, 128",
    weight="S and N: softmax weight of the pair among one positive and all negatives",
    relation="sets",
    memory=True,
    presets={"paper": Preset({"temperature": 0.5}, "SimCLR, batches of 4096, 100 epochs")},
    space={"temperature": Range(0.02, 1.0, log=True)},
)
def nt_xent(
    embeddings: Tensor,
    labels: Tensor,
    *,
    references: References | None = None,
    temperature: float = 0.1,
) -> Tensor:
    r"""Each positive should win a softmax against the anchor's negatives, other positives left out.

    .. math::
        \ell_{ij} = \log\Big(e^{S_{ij} / T} + \sum_{k \in N_i} e^{S_{ik} / T}\Big) - \frac{S_{ij}}{T}

    averaged over all ordered positive pairs. An anchor with many positives therefore counts more
    than one with few. With one positive each it is ``supcon``.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,), or a relation (B, B).
        references: batch and memory; None for the batch.
        temperature: T.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: two views or images of each class, large batches; with many positives an already
    near positive is not held back by its siblings, as it is in ``supcon``.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> round(float(nt_xent(x, torch.tensor([0, 0, 1]), temperature=1.0)), 4)  # log(1 + 1/e)
        0.3133
    """
    p = compare(embeddings, labels, references, sphere=True)
    far = p.neg(lambda t: lse(t.s / temperature))

    def pairs(t: Tile, rival: Tensor) -> tuple[Term, ...]:
        return total(softplus(rival - t.s / temperature)), count(torch.ones_like(t.s, dtype=torch.bool))

    value, number = p.pos(pairs, rows=(far,))
    return p.ratio(value, number)
