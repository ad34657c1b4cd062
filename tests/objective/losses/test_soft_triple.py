"""SoftTriple: oracle, worked numbers, limits of the assignment, merging centres."""

import pytest
import torch

from similis.objective.comparison.compare import compare_to_classes
from similis.objective.loss import loss
from similis.objective.losses.normface import normface
from similis.objective.losses.soft_triple import soft_triple, spread
from similis.objective.losses.subcenter_arcface import subcenter_arcface
from similis.values import UserError
from tests.batches import A_LABELS, CENTRES_A, PROXIES_A, A
from tests.plain import ZERO, distance, dot, lse, mean, on_sphere
from tests.proof import Peer


def oracle(x, labels, learned, options):
    x, classes = on_sphere(x), [on_sphere(w) for w in learned["proxies"]]
    values = []
    for row, y in zip(x, labels, strict=True):
        logits = [options["scale"] * soft(row, centres, options["gamma_inv"]) for centres in classes]
        logits[y] = logits[y] - options["scale"] * options["margin_cos"]
        values.append(lse(logits) - logits[y])
    number = len(classes[0])
    pairs = [distance(w[t], w[u]) for w in classes for t in range(number) for u in range(t + 1, number)]
    return mean(values) + options["tau"] * sum(pairs, ZERO) / max(len(classes) * number * (number - 1), 1)


def soft(row, centres, gamma_inv):
    cosines = [dot(row, w) for w in centres]
    peak = lse([gamma_inv * s for s in cosines])
    return sum(((gamma_inv * s - peak).exp() * s for s in cosines), ZERO)


ORACLES = {"default": oracle, "no_regulariser": oracle}


def peer(tau):
    def value(x, labels, learned):
        from pytorch_metric_learning.losses import SoftTripleLoss
        from pytorch_metric_learning.regularizers import SparseCentersRegularizer

        classes, centres, dim = learned["proxies"].shape
        extra = (
            {"weight_regularizer": SparseCentersRegularizer(classes, centres), "weight_reg_weight": tau} if tau else {}
        )
        loss = SoftTripleLoss(classes, dim, centers_per_class=centres, la=20, gamma=0.1, margin=0.01, **extra)
        loss.fc.data = learned["proxies"].flatten(0, 1).T.to(x.dtype)
        return loss(x, labels)

    return value


PEERS = {
    "default": Peer("SoftTripleLoss(SparseCentersRegularizer)", peer(0.2)),
    "no_regulariser": Peer("SoftTripleLoss", peer(0.0)),
}


def spread_of(proxies):
    return spread(compare_to_classes(A, A_LABELS, proxies, sphere=True), proxies)


WORKED = [
    ((A, A_LABELS, CENTRES_A), {}, 0.48279987),
    ((A, A_LABELS, CENTRES_A), {"tau": 0.0}, 0.36355696),
    ((A, A_LABELS, CENTRES_A), {"margin_cos": 0.1}, 1.10525807),
    ((A, A_LABELS, CENTRES_A), {"scale": 78.0, "gamma_inv": 58.0, "margin_cos": 0.4, "tau": 0.4}, 14.76832941),
]


@pytest.mark.parametrize("centres", [1, 3])
def test_one_centre_or_equal_centres_are_normface(centres):
    proxies = PROXIES_A.unsqueeze(1).repeat(1, centres, 1).requires_grad_()
    mine = soft_triple(A, A_LABELS, proxies, margin_cos=0.0)
    mine.backward()
    assert mine.item() == pytest.approx(float(normface(A, A_LABELS, PROXIES_A, scale=20.0)), abs=1e-12)
    assert spread_of(proxies).item() == 0  # a constant under the root would leave 0.00158
    assert proxies.grad.isfinite().all()


def test_equal_centres_have_no_gradient_from_the_regulariser():
    proxies = PROXIES_A.unsqueeze(1).repeat(1, 4, 1).requires_grad_()
    spread_of(proxies).backward()
    assert proxies.grad.abs().sum() == 0


def test_limits_of_the_assignment():
    """Sharp: the nearest centre decides, as in sub-centre ArcFace without margin. Flat: the mean of the cosines."""
    sharp = float(soft_triple(A, A_LABELS, CENTRES_A, gamma_inv=1e6, margin_cos=0.0, tau=0.0))
    nearest = float(subcenter_arcface(A, A_LABELS, CENTRES_A, scale=20.0, margin_deg=0.0))
    assert sharp == pytest.approx(nearest, abs=1e-4)
    flat = float(soft_triple(A, A_LABELS, CENTRES_A, gamma_inv=1e-9, margin_cos=0.0, tau=0.0))
    logits = 20 * torch.einsum("nd,ckd->nck", A, CENTRES_A).mean(2)
    assert flat == pytest.approx(float(torch.nn.functional.cross_entropy(logits, A_LABELS)), abs=1e-6)


def test_number_of_centres_is_chosen_when_the_loss_is_built():
    assert loss("soft_triple", num_classes=4, dim=5).learned["proxies"].shape == (4, 10, 5)
    tuned = loss("soft_triple", num_classes=4, dim=5, preset="thesis_tuned")
    assert tuned.learned["proxies"].shape == (4, 2, 5)
    assert tuned.parameter_groups(1e-4)[0]["lr"] == pytest.approx(5e-5)
    with pytest.raises(UserError, match=r"\(C, K, D\)"):
        soft_triple(A, A_LABELS, PROXIES_A)
