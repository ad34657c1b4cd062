"""ProxyGML: only the nearest of several proxies per class."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from similis.objective.class_shards import count_classes, own_classes
from similis.objective.comparison.classes import compare_classes
from similis.objective.comparison.compare import Comparison, compare_to_classes
from similis.objective.comparison.proxies import Size, check_stacked, initial_proxies
from similis.objective.terms.reductions import Term, Top, lse, softplus, top
from similis.objective.terms.tile import Tile
from similis.registry import Cost, Preset, Range, register_loss
from similis.sphere import unit
from similis.values import UserError


def class_proxies(size: Size, *, subproxies: int = 12) -> Tensor:
    """M directions for each class, (C, M, D)."""
    return initial_proxies(size, subproxies)


def count_kept_proxies(classes: int, subproxies: int, ratio: float, neighbors: int | None) -> int:
    """K, the number of proxies that a sample keeps, its own M among them."""
    if neighbors is None:
        # a product such as 0.07 * 100 * 12 may land a hair above the whole number that is meant
        wanted = max(subproxies, math.ceil(ratio * classes * subproxies - 1e-9))
    elif neighbors < subproxies:
        raise UserError(f"neighbors is {neighbors} but a class alone has {subproxies} proxies; give at least that many")
    else:
        wanted = neighbors
    return min(wanted, classes * subproxies)


@register_loss(
    family="proxy",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B C M D + C^2 M D", memory="C M D"),
    paper="Zhu, Yang, Deng, Zheng, Liu: Fewer is More: Deep Graph Metric Learning Using Fewer Proxies, NeurIPS 2020",
    network="BN-Inception, 512",
    weight="S and N: probability of the class among those with a kept proxy",
    learns={"proxies": class_proxies},
    lr_multiplier=100.0,
    # The paper's ratio of 0.05 is meant for a hundred classes: among four it would keep no rival at all.
    forms={
        "default": {"subproxies": 3, "ratio": 0.5},
        "few": {"subproxies": 3, "neighbors": 4},
        "all": {"subproxies": 1, "ratio": 1.0, "regularisation": 0.0},
    },
    presets={
        "paper": Preset(
            {"subproxies": 12, "ratio": 0.05, "regularisation": 0.3},
            "official code, with Adam of eps = 0.01",
            lr_multiplier=300.0,
        ),
    },
    space={"ratio": Range(0.01, 1.0, log=True), "regularisation": Range(0.0, 1.0, step=0.1)},
)
def proxy_gml(
    embeddings: Tensor,
    labels: Tensor,
    proxies: Tensor,
    *,
    ratio: float = 0.05,
    neighbors: int | None = None,
    regularisation: float = 0.3,
) -> Tensor:
    r"""Classification among the classes of a sample's most similar proxies only.

    A sample keeps the M proxies of its class and the K - M most similar others,
    K = max(M, ceil(ratio C M)). With :math:`z_{ic}` the sum of the kept cosines of class c and
    :math:`Z_{jc}` the sum of all cosines of proxy j with the proxies of class c:

    .. math::
        L = \frac{1}{B} \sum_i \Big[ \log \sum_{c\ \text{kept}} e^{z_{ic}} - z_{i y_i} \Big]
          + \frac{\lambda}{C M} \sum_j \Big[ \log \sum_c e^{Z_{jc}} - Z_{j y_j} \Big]

    The choice of proxies is not differentiated; equal cosines go to the lower proxy number.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,) row numbers of the proxies.
        proxies: (C, M, D), put on the unit sphere here.
        ratio: the part of all proxies that is kept.
        neighbors: K itself, at least M; None for the ratio.
        regularisation: lambda, the weight of the classification of the proxies themselves.

    Shapes: embeddings (B, D), labels (B,), proxies (C, M, D) -> ().

    When to use: classes of several looks, some hundred classes; with very many classes take one proxy
    each and no regularisation, as the authors do.

    Example:
        >>> import torch
        >>> w = torch.eye(2).unsqueeze(1)
        >>> round(float(proxy_gml(torch.eye(2), torch.tensor([0, 1]), w, ratio=1.0, regularisation=0.0)), 4)
        0.3133
    """
    classes, members = count_classes(proxies), check_stacked(proxies).shape[1]
    rivals = count_kept_proxies(classes, members, ratio, neighbors) - members
    p = compare_to_classes(embeddings, labels, proxies, sphere=True)
    value = p.mean(softplus(lse_of_kept_classes(p, rivals, members) - p.at(labels.long()).s.sum(-1)))
    return value + regularisation * between_proxies(proxies) if regularisation else value


def lse_of_kept_classes(p: Comparison, rivals: int, members: int) -> Tensor:
    """Log-sum-exp over the other classes that have one of the ``rivals`` most similar proxies, (B,)."""
    if not rivals:
        nothing: Tensor = p.neg(lambda t: lse(t.s.sum(-1), torch.zeros_like(t.s[..., 0], dtype=torch.bool)))
        return nothing
    best: Top = p.neg(lambda t: top(t.s, k=rivals))

    def among_best(t: Tile, least: Tensor, last: Tensor) -> Term:
        proxy = t.columns[..., None] * members + torch.arange(members, device=t.s.device)
        kept = (t.s > least) | ((t.s == least) & (proxy <= last))
        return lse(torch.where(kept, t.s, 0.0).sum(-1), kept.any(-1))

    found: Tensor = p.neg(among_best, rows=(best.values[:, -1:], best.index[:, -1:]))
    return found


def between_proxies(proxies: Tensor) -> Tensor:
    """Mean cross entropy of the proxies, each to be found in its own class.

    The cosines of a proxy with all proxies of a class add up to its product with their sum.
    """
    vectors = unit(own_classes(proxies))
    q = compare_classes(vectors, vectors.sum(1))
    assert q.row_labels is not None
    return q.mean(softplus(q.neg(lambda t: lse(t.s)) - q.at(q.row_labels).s))
