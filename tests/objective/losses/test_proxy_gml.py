"""ProxyGML: oracle that sorts, worked numbers, ties, numbers of neighbours. The peer library has no ProxyGML."""

import math

import pytest
import torch

from similis.objective.loss import loss
from similis.objective.losses.proxy_gml import count_kept_proxies, proxy_gml
from similis.values import UserError
from tests.batches import A_LABELS, CENTRES_A, A
from tests.plain import ZERO, dot, lse, mean, number, on_sphere


def oracle(x, labels, learned, options):
    classes, members = learned["proxies"].shape[:2]
    x, proxies = on_sphere(x), on_sphere(learned["proxies"].flatten(0, 1))
    of_class = [j // members for j in range(classes * members)]
    keep = options["neighbors"] or max(members, math.ceil(options["ratio"] * classes * members))
    values = []
    for row, y in zip(x, labels, strict=True):
        cosines = [dot(row, w) for w in proxies]
        order = sorted(range(len(proxies)), key=lambda j: (of_class[j] != y, -number(cosines[j]), j))[:keep]
        z = {c: sum((cosines[j] for j in order if of_class[j] == c), ZERO) for c in {of_class[j] for j in order}}
        values.append(lse(list(z.values())) - z[y])
    between = []
    for j, w in enumerate(proxies):
        sums = [
            sum((dot(w, proxies[k]) for k in range(len(proxies)) if of_class[k] == c), ZERO) for c in range(classes)
        ]
        between.append(lse(sums) - sums[of_class[j]])
    return mean(values) + options["regularisation"] * mean(between)


ORACLES = {"default": oracle, "few": oracle, "all": oracle}


WORKED = [
    ((A, A_LABELS, CENTRES_A), {"neighbors": 3, "regularisation": 0.3}, 0.55986568),
    ((A, A_LABELS, CENTRES_A), {"neighbors": 3, "regularisation": 0.0}, 0.39303499),
    ((A, A_LABELS, CENTRES_A), {"neighbors": 6, "regularisation": 0.3}, 0.52974347),
    ((A, A_LABELS, CENTRES_A), {"neighbors": 100, "regularisation": 0.3}, 0.52974347),  # more than there are
    ((A, A_LABELS, CENTRES_A), {"neighbors": 6, "regularisation": 0.0}, 0.36291278),
    ((A, A_LABELS, CENTRES_A), {"neighbors": 2, "regularisation": 0.3}, 0.16683069),
    ((A, A_LABELS, CENTRES_A), {"neighbors": 2, "regularisation": 0.0}, 0.0),
]


def test_equal_cosines_go_to_the_lower_proxy():
    """The sample e0 is equally like e1, e2 and e3 of three other classes; one rival is kept: the first."""
    x = torch.eye(1, 4, dtype=torch.float64)
    proxies = torch.eye(4, dtype=torch.float64).unsqueeze(1).requires_grad_()
    proxy_gml(x, torch.tensor([0]), proxies, neighbors=2, regularisation=0.0).backward()
    assert (proxies.grad.abs().sum((1, 2)) > 0).tolist() == [False, True, False, False]  # its own has a tangent of 0


def test_number_of_neighbours():
    assert count_kept_proxies(100, 12, 0.05, None) == 60
    assert count_kept_proxies(100, 12, 0.07, None) == 84  # 0.07 * 100 * 12 is a hair above 84
    assert count_kept_proxies(4, 12, 0.05, None) == 12
    with pytest.raises(UserError, match="at least that many"):
        proxy_gml(A, A_LABELS, CENTRES_A, neighbors=1)


def test_number_of_proxies_is_chosen_when_the_loss_is_built():
    assert loss("proxy_gml", num_classes=4, dim=5, preset="paper").learned["proxies"].shape == (4, 12, 5)
    assert loss("proxy_gml", num_classes=4, dim=5, subproxies=1).learned["proxies"].shape == (4, 1, 5)
