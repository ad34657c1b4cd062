"""Small numeric demonstrations of what public code does, run side by side where it is installed."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from docs.generator.numbers import Demonstration, shown
from similis.objective.losses import multi_similarity, proxy_anchor, proxy_nca, proxy_nca_pp
from tests.batches import A_LABELS, B_LABELS, PROXIES_A, PROXIES_B, A, B


def one_column_for_two_classes() -> Demonstration:
    from sklearn.preprocessing import label_binarize

    columns = torch.as_tensor(label_binarize(B_LABELS.numpy(), classes=[0, 1]))
    cosine = B @ PROXIES_B.T
    own, other = columns.expand(-1, 2).bool(), ~columns.expand(-1, 2).bool()
    pull = torch.where(own, (-32 * (cosine - 0.1)).exp(), 0.0).sum(0)
    push = torch.where(other, (32 * (cosine + 0.1)).exp(), 0.0).sum(0)
    wrong = pull.log1p().mean() + push.log1p().mean()
    return Demonstration(
        "`label_binarize` and two classes",
        "One column serves both classes, so class 0 is trained as class 1.",
        [
            ("columns", str(columns.shape[1]), "2"),
            ("ProxyAnchor", shown(wrong), shown(proxy_anchor(B, B_LABELS, PROXIES_B))),
        ],
    )


def few_pairs_are_dropped() -> Demonstration:
    from pytorch_metric_learning.losses import MultiSimilarityLoss
    from pytorch_metric_learning.miners import MultiSimilarityMiner

    mined = MultiSimilarityMiner(epsilon=0.1)(A, A_LABELS)
    peer = MultiSimilarityLoss(alpha=2, beta=50, base=0.5)(A, A_LABELS, mined)
    return Demonstration(
        "A peer returns 0 for few pairs",
        "Mining keeps one positive and one negative pair of this batch.",
        [
            ("mined pairs", str(len(mined[0]) + len(mined[2])), "2"),
            ("multi-similarity", shown(peer), shown(multi_similarity(A, A_LABELS))),
        ],
    )


def own_proxy_below() -> Demonstration:
    from pytorch_metric_learning.losses import ProxyNCALoss

    peer = ProxyNCALoss(num_classes=3, embedding_size=2, softmax_scale=1).double()
    peer.proxies.data = PROXIES_A.clone()
    with torch.no_grad():
        value = peer(A, A_LABELS)
    return Demonstration(
        "A peer's ProxyNCA is ProxyNCA++",
        "It keeps the own proxy in the denominator.",
        [
            ("against `proxy_nca`", shown(value), shown(proxy_nca(A, A_LABELS, PROXIES_A))),
            (
                "against `proxy_nca_pp`, T = 1",
                shown(value),
                shown(proxy_nca_pp(A, A_LABELS, PROXIES_A, temperature=1.0)),
            ),
        ],
    )


def margin_outside_the_graph() -> Demonstration:
    cosine, m = 0.5, 0.5
    theta = math.acos(cosine)
    derivative = 64 * math.sin(theta + m) / math.sin(theta)
    return Demonstration(
        "ArcFace with the margin added outside of the graph",
        "Derivative of the target's logit by its cosine at 0.5, margin 0.5 rad, scale 64.",
        [
            ("derivative", shown(64.0), shown(derivative)),
        ],
    )


ALL: tuple[Callable[[], Demonstration], ...] = (
    one_column_for_two_classes,
    few_pairs_are_dropped,
    own_proxy_below,
    margin_outside_the_graph,
)
