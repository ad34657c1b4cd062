"""ProxyNCA++: oracle, worked numbers."""

import pytest

from similis.objective.losses.proxy_nca_pp import proxy_nca_pp
from similis.values import UserError
from tests.batches import A_LABELS, B_LABELS, PROXIES_A, PROXIES_B, A, B
from tests.plain import lse, mean, on_sphere, squared_distance
from tests.proof import Peer, proxy_peer


def oracle(x, labels, learned, options):
    x, proxies = on_sphere(x), on_sphere(learned["proxies"])
    rows = [[-squared_distance(row, w) / options["temperature"] for w in proxies] for row in x]
    return mean([lse(row) - row[y] for row, y in zip(rows, labels, strict=True)])


ORACLES = {"default": oracle}


PEERS = {"default": Peer("ProxyNCALoss(softmax_scale=9)", proxy_peer("ProxyNCALoss", softmax_scale=9))}


WORKED = [
    ((A, A_LABELS, PROXIES_A), {"temperature": 1.0}, 0.38131580),
    ((A, A_LABELS, PROXIES_A), {"temperature": 1 / 9}, 0.00224451),
    ((B, B_LABELS, PROXIES_B), {"temperature": 1 / 9}, 0.69129060),
]


def test_a_temperature_of_zero_is_refused():
    with pytest.raises(UserError, match="above 0"):
        proxy_nca_pp(A, A_LABELS, PROXIES_A, temperature=0.0)
