"""ProxyNCA++: oracle, worked numbers."""

import pytest

from similis.objective.losses.proxy_nca_pp import proxy_nca_pp
from similis.values import UserError
from tests.batches import A_LABELS, B_LABELS, PROXIES_A, PROXIES_B, A, B
from tests.plain import lse, mean, on_sphere, squared_distance
from tests.proof import Peer


def oracle(x, labels, learned, options):
    x, proxies = on_sphere(x), on_sphere(learned["proxies"])
    rows = [[-squared_distance(row, w) / options["temperature"] for w in proxies] for row in x]
    return mean([lse(row) - row[y] for row, y in zip(rows, labels, strict=True)])


ORACLES = {"default": oracle}


def peer(x, labels, learned):
    from pytorch_metric_learning.losses import ProxyNCALoss

    loss = ProxyNCALoss(num_classes=len(learned["proxies"]), embedding_size=x.shape[1], softmax_scale=9)
    loss.proxies.data = learned["proxies"].to(x.dtype)
    return loss(x, labels)


PEERS = {"default": Peer("ProxyNCALoss(softmax_scale=9)", peer)}


@pytest.mark.parametrize(
    ("x", "labels", "proxies", "temperature", "expected"),
    [
        (A, A_LABELS, PROXIES_A, 1.0, 0.38131580),
        (A, A_LABELS, PROXIES_A, 1 / 9, 0.00224451),
        (B, B_LABELS, PROXIES_B, 1 / 9, 0.69129060),
    ],
)
def test_worked_numbers(x, labels, proxies, temperature, expected):
    assert float(proxy_nca_pp(x, labels, proxies, temperature=temperature)) == pytest.approx(expected, abs=1e-6)


def test_a_temperature_of_zero_is_refused():
    with pytest.raises(UserError, match="above 0"):
        proxy_nca_pp(A, A_LABELS, PROXIES_A, temperature=0.0)
