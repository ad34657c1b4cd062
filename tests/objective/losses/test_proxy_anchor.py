"""ProxyAnchor: oracle from the paper, worked numbers, the corrected gradient of S 20 / T 2.32."""

from __future__ import annotations

import pytest
import torch

from similis.objective.losses.proxy_anchor import proxy_anchor
from tests.batches import A_LABELS, B_LABELS, PROXIES_A, PROXIES_B, A, B, random_batch
from tests.plain import dot, lse1, mean, on_sphere
from tests.proof import Peer


def oracle(x, labels, learned, options):
    x, proxies = on_sphere(x), on_sphere(learned["proxies"])
    scale, margin = options["scale"], options["margin_cos"]
    pull, push = [], []
    for c, proxy in enumerate(proxies):
        own = [-scale * (dot(x[i], proxy) - margin) for i in range(len(x)) if labels[i] == c]
        other = [scale * (dot(x[i], proxy) + margin) for i in range(len(x)) if labels[i] != c]
        if own:
            pull.append(lse1(own))
        push.append(lse1(other))
    return mean(pull) + mean(push)


ORACLES = {"default": oracle}


def peer(x, labels, learned):
    from pytorch_metric_learning.losses import ProxyAnchorLoss

    loss = ProxyAnchorLoss(num_classes=len(learned["proxies"]), embedding_size=x.shape[1], margin=0.1, alpha=32)
    loss.proxies.data = learned["proxies"].to(x.dtype)
    return loss(x, labels)


PEERS = {"default": Peer("ProxyAnchorLoss", peer)}


@pytest.mark.parametrize(
    ("x", "labels", "proxies", "expected"),
    [
        (A, A_LABELS, PROXIES_A, 23.19609610),
        (B, B_LABELS, PROXIES_B, 33.39653936),
        (A[:3], A_LABELS[:3], PROXIES_A, 21.75250568),
    ],
)
def test_worked_numbers(x, labels, proxies, expected):
    assert float(proxy_anchor(x, labels, proxies)) == pytest.approx(expected, abs=1e-6)


def test_gradient_on_similarities_is_the_corrected_closed_form():
    """Orthonormal proxies make the similarities free coordinates of the samples."""
    scale, margin = 32.0, 0.1
    s = torch.tensor([[0.2, -0.1, 0.05], [0.1, 0.3, -0.2]], dtype=torch.float64)
    rest = (1 - s.square().sum(1, keepdim=True)).sqrt()
    x = torch.cat([s, rest], 1).requires_grad_()
    labels, proxies = torch.tensor([0, 1]), torch.eye(3, 4, dtype=torch.float64)
    proxy_anchor(x, labels, proxies).backward()
    own = torch.tensor([[True, False, False], [False, True, False]])
    pull = torch.where(own, torch.exp(-scale * (s - margin)), 0.0)
    push = torch.where(own, 0.0, torch.exp(scale * (s + margin)))
    weights = -(scale / 2) * pull / (1 + pull.sum(0)) + (scale / 3) * push / (1 + push.sum(0))
    free = torch.cat([weights, torch.zeros(2, 1, dtype=torch.float64)], 1)
    unit = x.detach()
    tangent = free - (free * unit).sum(1, keepdim=True) * unit
    assert torch.allclose(x.grad, tangent, atol=1e-10)


def test_a_relation_gives_what_labels_give():
    x, labels = random_batch(0)
    proxies = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    relation = torch.nn.functional.one_hot(labels, 4)
    assert float(proxy_anchor(x, relation, proxies)) == pytest.approx(
        float(proxy_anchor(x, labels, proxies)), abs=1e-12
    )


def test_two_classes_are_no_special_case():
    """Code that builds one-hots with label_binarize gets one column for two classes."""
    value = float(proxy_anchor(B, B_LABELS, PROXIES_B))
    assert value == pytest.approx(
        float(oracle(B, B_LABELS.tolist(), {"proxies": PROXIES_B}, {"scale": 32.0, "margin_cos": 0.1}))
    )
