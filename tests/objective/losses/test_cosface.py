"""CosFace: oracle, worked numbers, margin 0 is NormFace."""

import pytest

from similis.objective.losses.cosface import cosface
from similis.objective.losses.normface import normface
from tests.batches import A_LABELS, B_LABELS, PROXIES_A, PROXIES_B, A, B
from tests.plain import dot, lse, mean, on_sphere
from tests.proof import Peer, proxy_peer


def oracle(x, labels, learned, options):
    x, proxies = on_sphere(x), on_sphere(learned["proxies"])
    values = []
    for row, y in zip(x, labels, strict=True):
        cosines = [dot(row, w) for w in proxies]
        logits = [options["scale"] * (s - options["margin_cos"] * (c == y)) for c, s in enumerate(cosines)]
        values.append(lse(logits) - logits[y])
    return mean(values)


ORACLES = {"default": oracle}


PEERS = {"default": Peer("CosFaceLoss", proxy_peer("CosFaceLoss", margin=0.35, scale=64))}


WORKED = [
    ((A, A_LABELS, PROXIES_A), {"scale": 64.0}, 1.44087796),
    ((A, A_LABELS, PROXIES_A), {"scale": 16.0}, 0.51639877),
    ((B, B_LABELS, PROXIES_B), {"scale": 64.0}, 9.49479305),
    ((B, B_LABELS, PROXIES_B), {"scale": 16.0}, 2.37789283),
]


def test_without_a_margin_it_is_normface():
    mine = float(cosface(A, A_LABELS, PROXIES_A, scale=20.0, margin_cos=0.0))
    assert mine == pytest.approx(float(normface(A, A_LABELS, PROXIES_A, scale=20.0)), abs=1e-12)
