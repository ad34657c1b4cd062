"""SoftTriple: several softly assigned centres per class."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.comparison.compare import Comparison, compare_to_classes
from similis.objective.comparison.proxies import Size, check_stacked, initial_proxies
from similis.objective.terms.distances import Similarities
from similis.objective.terms.reductions import lse, softplus
from similis.registry import Cost, Preset, Range, register_loss


def class_centers(size: Size, *, centers: int = 10) -> Tensor:
    """K vectors for each class, (C, K, D)."""
    return initial_proxies(size, centers, "kaiming_uniform")


@register_loss(
    family="proxy",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B C K D + C K^2 D", memory="C K D"),
    paper="Qian, Shang, Sun, Hu, Li, Jin: SoftTriple Loss: Deep Metric Learning Without Triplet Sampling, ICCV 2019",
    network="BN-Inception, 512",
    weight="S and N: probability of the class, divided among its centres",
    learns={"proxies": class_centers},
    lr_multiplier=100.0,
    forms={"default": {}, "no_regulariser": {"centers": 3, "tau": 0.0}},
    presets={
        "paper": Preset(
            {"scale": 20.0, "gamma_inv": 10.0, "margin_cos": 0.01, "tau": 0.2, "centers": 10},
            "official code",
            lr_multiplier=100.0,
        ),
        "thesis": Preset(
            {"scale": 20.0, "gamma_inv": 10.0, "margin_cos": 0.1, "tau": 0.2, "centers": 2},
            "thesis, Table 4 (1e-4)",
            lr_multiplier=1.0,
        ),
        "thesis_tuned": Preset(
            {"scale": 78.0, "gamma_inv": 58.0, "margin_cos": 0.4, "tau": 0.4, "centers": 2},
            "thesis, Table 15 (5e-5)",
            lr_multiplier=0.5,
        ),
    },
    space={
        "margin_cos": Range(0.0, 1.0, step=0.1),
        "tau": Range(0.0, 1.0, step=0.1),
        "scale": Range(2.0, 100.0, step=2.0),
        "gamma_inv": Range(10.0, 100.0, step=10.0),
    },
)
def soft_triple(
    embeddings: Tensor,
    labels: Tensor,
    proxies: Tensor,
    *,
    scale: float = 20.0,
    gamma_inv: float = 10.0,
    margin_cos: float = 0.01,
    tau: float = 0.2,
) -> Tensor:
    r"""Classification by cosines with K centres per class, softly assigned, drawn together.

    .. math::
        S_{ic} = \sum_k q_{ick}\, x_i^\top w_{ck}, \quad
        q_{ic\cdot} = \operatorname{softmax}_k(\gamma^{-1} x_i^\top w_{ck}), \qquad
        L = \frac{1}{B} \sum_i \log\Big(1 + \sum_{c \ne y_i} e^{\lambda (S_{ic} - S_{i y_i} + \delta)}\Big)
          + \frac{\tau}{C K (K-1)} \sum_c \sum_{t<u} \lVert w_{ct} - w_{cu} \rVert

    The assignment is differentiated through. One centre per class and margin 0 are NormFace.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,) row numbers of the proxies.
        proxies: (C, K, D), put on the unit sphere here.
        scale: lambda, 20 in the paper.
        gamma_inv: inverse temperature of the assignment, 10 (the paper's gamma of 0.1 is its inverse).
        margin_cos: delta, a cosine, 0.01 in the paper.
        tau: weight of the term that draws the centres of a class together, 0.2 in the paper.

    Shapes: embeddings (B, D), labels (B,), proxies (C, K, D) -> ().

    When to use: classes of several looks; start with more centres than needed, the last term merges them.

    Example:
        >>> import torch
        >>> w = torch.eye(2).unsqueeze(1)
        >>> round(float(soft_triple(torch.eye(2), torch.tensor([0, 1]), proxies=w, scale=1.0, margin_cos=0.0)), 4)
        0.3133
    """
    p = compare_to_classes(embeddings, labels, check_stacked(proxies), sphere=True)
    others = p.neg(lambda t: lse(scale * soft_assignment(t.s, gamma_inv)))
    own = soft_assignment(p.at(labels.long()).s, gamma_inv)
    value = p.mean(softplus(others - scale * (own - margin_cos)))
    return value + tau * spread(p, proxies) if tau else value


def soft_assignment(similarity: Tensor, gamma_inv: float) -> Tensor:
    """Cosines with K centres (..., K) averaged by their own softmax weights."""
    return (torch.softmax(gamma_inv * similarity, -1) * similarity).sum(-1)


def spread(p: Comparison, proxies: Tensor) -> Tensor:
    """Half the mean distance between two centres of one class; 0 for one centre, without NaN for equal ones.

    The centres are read through the comparison, a few classes at a time where it is in tiles.
    """
    centers = proxies.shape[1]
    sums = p.own(lambda own: Similarities(own @ own.mT, None).d.triu(diagonal=1).sum((1, 2)))
    return p.column_mean(sums) / max(centers * (centers - 1), 1)
