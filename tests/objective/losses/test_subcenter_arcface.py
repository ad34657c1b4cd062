"""Sub-centre ArcFace: oracle, worked number, one centre is ArcFace."""

import pytest

from similis.objective.loss import loss
from similis.objective.losses.arcface import arcface
from similis.objective.losses.subcenter_arcface import subcenter_arcface
from similis.values import UserError
from tests.batches import A_LABELS, CENTRES_A, PROXIES_A, A
from tests.objective.losses.test_arcface import margin_of, own_logit
from tests.plain import dot, lse, mean, number, on_sphere
from tests.proof import Peer, proxy_peer


def oracle(x, labels, learned, options):
    x, classes = on_sphere(x), [on_sphere(w) for w in learned["proxies"]]
    values = []
    for row, y in zip(x, labels, strict=True):
        logits = [max((dot(row, w) for w in centres), key=number) for centres in classes]
        logits[y] = own_logit(logits[y], margin_of(options), options["guard"])
        logits = [options["scale"] * z for z in logits]
        values.append(lse(logits) - logits[y])
    return mean(values)


ORACLES = {"default": oracle}


PEERS = {
    "default": Peer("SubCenterArcFaceLoss", proxy_peer("SubCenterArcFaceLoss", margin=28.6, scale=64, sub_centers=3))
}


WORKED = [((A, A_LABELS, CENTRES_A), {}, 8.54552685)]


def test_one_centre_is_arcface():
    mine = float(subcenter_arcface(A, A_LABELS, PROXIES_A.unsqueeze(1), scale=16.0))
    assert mine == pytest.approx(float(arcface(A, A_LABELS, PROXIES_A, scale=16.0)), abs=1e-12)


def test_number_of_centres_is_chosen_when_the_loss_is_built():
    assert loss("subcenter_arcface", num_classes=4, dim=5, centers=2).learned["proxies"].shape == (4, 2, 5)
    with pytest.raises(UserError, match=r"unsqueeze\(1\)"):
        subcenter_arcface(A, A_LABELS, PROXIES_A)
