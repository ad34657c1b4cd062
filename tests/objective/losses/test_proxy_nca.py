"""ProxyNCA: oracle, worked numbers, direction regularisation."""

import pytest
import torch

from similis.objective.loss import loss
from similis.objective.losses.proxy_nca import proxy_nca
from similis.values import UserError
from tests.batches import A_LABELS, B_LABELS, PROXIES_A, PROXIES_B, A, B, circle
from tests.plain import angle, lse, mean, on_sphere, squared_distance
from tests.proof import Peer, proxy_peer


def oracle(x, labels, learned, options):
    x, proxies = on_sphere(x), on_sphere(learned["proxies"])
    strength, gamma = options["sigma"] ** 2, options["direction"]
    values = []
    for row, y in zip(x, labels, strict=True):
        others = [
            -strength * squared_distance(row, w) - gamma * angle(row, proxies[y], w)
            for c, w in enumerate(proxies)
            if c != y
        ]
        values.append(lse(others) + strength * squared_distance(row, proxies[y]))
    return mean(values)


ORACLES = {"default": oracle, "sigma": oracle, "direction": oracle}


NOTE = (
    "the peer keeps the own proxy in the denominator: it computes ProxyNCA++ with temperature 1 / softmax_scale, "
    "which is the softplus of each sample's ProxyNCA"
)
PEERS = {
    "default": Peer(
        "ProxyNCALoss(softmax_scale=1)", proxy_peer("ProxyNCALoss", softmax_scale=1), agrees=False, note=NOTE
    ),
    "sigma": Peer(
        "ProxyNCALoss(softmax_scale=9)", proxy_peer("ProxyNCALoss", softmax_scale=9), agrees=False, note=NOTE
    ),
}


WORKED = [
    ((A, A_LABELS, PROXIES_A), {}, -0.93818980),
    ((A, A_LABELS, PROXIES_A), {"sigma": 3.0}, -11.29811273),
    ((B, B_LABELS, PROXIES_B), {}, -0.91437474),
    ((A, A_LABELS, PROXIES_A), {"direction": 0.3}, -1.09035958),
    ((A[:1], A_LABELS[:1], circle(0, 180)), {}, -4.0),
    ((A, A_LABELS, PROXIES_A), {"sigma": 0.5**0.5}, -1.02386389 / 6),  # the dot products of the thesis
]


def test_direction_of_a_sample_on_its_proxy_is_nothing():
    x = PROXIES_A[:1].clone().requires_grad_()
    value = proxy_nca(x, torch.tensor([0]), PROXIES_A, direction=0.3)
    value.backward()
    plain = proxy_nca(x, torch.tensor([0]), PROXIES_A)
    assert value.item() == pytest.approx(plain.item(), abs=1e-12)
    assert x.grad.isfinite().all()


def test_one_class_is_refused():
    with pytest.raises(UserError, match="at least 2"):
        loss("proxy_nca", num_classes=1, dim=5)
    with pytest.raises(UserError, match="at least 2"):
        proxy_nca(A, torch.zeros(6, dtype=torch.long), PROXIES_A[:1])
