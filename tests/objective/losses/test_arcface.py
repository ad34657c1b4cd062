"""ArcFace: oracle with arccos, worked numbers, guard, degrees against radians."""

import math

import pytest
import torch

from similis.objective.comparison.angles import cosine_of_widened_angle
from similis.objective.loss import loss
from similis.objective.losses.arcface import arcface
from similis.objective.losses.normface import normface
from similis.values import UserError
from tests.batches import A_LABELS, B_LABELS, PROXIES_A, PROXIES_B, A, B, circle
from tests.plain import dot, lse, mean, number, on_sphere
from tests.proof import Peer, proxy_peer


def margin_of(options):
    if options["margin_rad"] is not None:
        return options["margin_rad"]
    return (28.6 if options["margin_deg"] is None else options["margin_deg"]) * math.pi / 180


def own_logit(cosine, margin, guard):
    theta = cosine.acos()
    if guard and number(theta) + margin > math.pi:
        return cosine - margin * math.sin(margin)
    return (theta + margin).cos()


def oracle(x, labels, learned, options):
    x, proxies = on_sphere(x), on_sphere(learned["proxies"])
    values = []
    for row, y in zip(x, labels, strict=True):
        logits = [dot(row, w) for w in proxies]
        logits[y] = own_logit(logits[y], margin_of(options), options["guard"])
        logits = [options["scale"] * z for z in logits]
        values.append(lse(logits) - logits[y])
    return mean(values)


ORACLES = {"default": oracle, "no_guard": oracle, "radians": oracle}


PEERS = {
    "default": Peer("ArcFaceLoss(margin=28.6)", proxy_peer("ArcFaceLoss", margin=28.6, scale=64)),
    "no_guard": Peer(
        "ArcFaceLoss(margin=1.2 rad)",
        proxy_peer("ArcFaceLoss", margin=math.degrees(1.2), scale=64),
        agrees=False,
        note="the peer always replaces cos(theta + m) by cos(theta) - m sin(m) beyond theta + m = pi; "
        "this form keeps the cosine there, and targets lie beyond for so large a margin",
    ),
    "radians": Peer("ArcFaceLoss(margin=0.5 rad)", proxy_peer("ArcFaceLoss", margin=math.degrees(0.5), scale=64)),
}


WORKED = [
    ((A, A_LABELS, PROXIES_A), {"scale": 64.0}, 1.44157845),
    ((A, A_LABELS, PROXIES_A), {"scale": 16.0}, 0.44825269),
    ((B, B_LABELS, PROXIES_B), {"scale": 64.0}, 9.53481185),
]


def test_degrees_taken_for_radians_or_a_bare_margin_are_refused():
    with pytest.raises(UserError, match=r"margin_deg=28\.6"):
        arcface(A, A_LABELS, PROXIES_A, margin_rad=28.6)
    with pytest.raises(UserError, match="margin_"):
        loss("arcface", num_classes=3, dim=2, margin=0.5)
    assert math.radians(loss("arcface", num_classes=3, dim=2, preset="paper").options["margin_deg"]) == 0.5


def test_without_a_margin_it_is_normface():
    mine = float(arcface(A, A_LABELS, PROXIES_A, scale=20.0, margin_deg=0.0))
    assert mine == pytest.approx(float(normface(A, A_LABELS, PROXIES_A, scale=20.0)), abs=1e-12)


def test_guard_keeps_the_own_logit_falling():
    cosine = circle(*range(1, 180)).mul(torch.tensor([1.0, 0.0], dtype=torch.float64)).sum(1)
    assert (cosine_of_widened_angle(cosine, 1.2, guard=True).diff() < 0).all()
    assert (cosine_of_widened_angle(cosine, 1.2, guard=False).diff() > 0).any()
    beyond = math.cos(math.radians(170))
    guarded = float(cosine_of_widened_angle(torch.tensor(beyond, dtype=torch.float64), 0.5, guard=True))
    assert guarded == pytest.approx(beyond - 0.5 * math.sin(0.5), abs=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gradient_is_finite_where_arccos_has_none(sign):
    x = (sign * torch.eye(3)).requires_grad_()
    proxies = torch.eye(3).requires_grad_()
    arcface(x, torch.arange(3), proxies, scale=100.0).backward()
    assert x.grad.isfinite().all()
    assert proxies.grad.isfinite().all()
