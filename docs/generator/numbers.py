"""Small numeric demonstrations of misprints in the two documents, computed when the page is written.

Batches are those of the tests: unit vectors on the circle, six samples, two or three classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from similis.objective.language import language
from similis.objective.losses import arcface, nca, npair, proxy_anchor, proxy_nca_pp
from similis.objective.losses import margin as margin_loss
from tests.batches import A_LABELS, PROXIES_A, A, circle

INDEX = torch.arange(6)
SAME_A = A_LABELS[:, None] == A_LABELS[None]


class Demonstration(NamedTuple):
    """A title, a sentence, and rows (what, as printed or as found, ours)."""

    title: str
    text: str
    rows: list[tuple[str, str, str]]


def shown(value: float | Tensor) -> str:
    """Eight digits."""
    return f"{float(torch.as_tensor(value).detach()) + 0.0:.8f}"  # + 0.0: no negative zero


def temperature_cancels() -> Demonstration:
    def printed(temperature: float) -> Tensor:
        weight = (-(A[:, None] - PROXIES_A).square().sum(-1)).exp() / temperature
        return -(weight[INDEX, A_LABELS] / weight.sum(1)).log().mean()

    rows = [
        (f"T = {name}", shown(printed(t)), shown(proxy_nca_pp(A, A_LABELS, PROXIES_A, temperature=t)))
        for name, t in (("1", 1.0), ("1/9", 1 / 9))
    ]
    return Demonstration("The temperature of Eq. 17 cancels", "As printed, both temperatures give one number.", rows)


def logarithm_without_exponential() -> Demonstration:
    products = A[::2] @ A[1::2].T
    gaps = products - products.diagonal()[:, None]
    inside = 1 + gaps.sum(1)  # the diagonal of the gaps is 0
    rows = [
        (f"pair {i}: 1 + sum", shown(inside[i]), "logarithm " + shown((gaps[i].exp().sum()).log())) for i in range(3)
    ]
    rows.append(
        (
            "loss",
            "no number" if bool((inside <= 0).any()) else shown(inside.log().mean()),
            shown(npair(A, A_LABELS, positives="pairs", l2=0.0)),
        )
    )
    return Demonstration(
        "Eq. 9 takes the logarithm of a negative number",
        "Without exponentials the argument of the logarithm is not even positive.",
        rows,
    )


def ratio_of_equals() -> Demonstration:
    weight = torch.where(SAME_A, 0.0, (-(A[:, None] - A).square().sum(-1)).exp()).sum(1)
    return Demonstration(
        "Eq. 15 is always 0",
        "The same set stands above and below.",
        [
            ("form `ratio`", shown(-(weight / weight).log().mean()), shown(nca(A, A_LABELS, form="ratio"))),
            ("form `prob`", shown(-(weight / weight).log().mean()), shown(nca(A, A_LABELS))),
        ],
    )


def shift_without_mask() -> Demonstration:
    words = torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]], dtype=torch.float64)
    names = words @ words.T

    def printed(shift: float) -> Tensor:
        image = (A @ A.T).log_softmax(1)
        text = (names[A_LABELS][:, A_LABELS] + shift).log_softmax(1)
        return (image.exp() * (image - text)).sum(1).mean()

    rows = [
        (f"shift {shift:g}", shown(printed(shift)), shown(language(A, A_LABELS, names, shift=shift)))
        for shift in (0.0, 1.0, 5.0)
    ]
    return Demonstration(
        "The shift of Eq. 29 does nothing", "A softmax does not see a constant; the mask makes it count.", rows
    )


def sign_of_the_push() -> Demonstration:
    own = torch.nn.functional.one_hot(A_LABELS).bool()
    cosine = (A @ PROXIES_A.T).requires_grad_()
    pull = torch.where(own, (-32 * (cosine - 0.1)).exp(), 0.0)
    push = torch.where(own, 0.0, (32 * (cosine + 0.1)).exp())
    loss = pull.sum(0).log1p().mean() + push.sum(0).log1p().mean()
    assert abs(loss.item() - proxy_anchor(A, A_LABELS, PROXIES_A).item()) < 1e-12  # it is our loss, of free cosines
    (derivative,) = torch.autograd.grad(loss, cosine)
    printed = -32 * push / (1 + push.sum(0)) / 3
    sample, proxy = divmod(int(push.argmax()), 3)
    return Demonstration(
        "Eq. 20 would attract negatives",
        "Derivative of ProxyAnchor by the cosine of a sample and a foreign proxy.",
        [
            (f"sample {sample}, proxy {proxy}", shown(printed[sample, proxy]), shown(derivative[sample, proxy])),
        ],
    )


def indicator_of_margin() -> Demonstration:
    def printed(x: Tensor, negative: float) -> Tensor:
        distance = (x[:, None] - x).square().sum(-1).clamp(min=1e-12).sqrt()
        pairs = ~SAME_A
        return (0.2 + negative * (distance[pairs] - 1.2)).relu().mean()

    def pull(negative: float) -> float:
        x = A.clone().requires_grad_()
        return float(torch.autograd.grad(printed(x, negative), x)[0].norm())

    x = A.clone().requires_grad_()
    whole = torch.autograd.grad(margin_loss(x, A_LABELS), x)[0].norm()
    return Demonstration(
        "Eq. 2.23 with an indicator of 1 or 0",
        "Size of the gradient that all negative pairs together exert.",
        [
            ("negatives only", shown(pull(0.0)), shown(pull(-1.0))),
            ("whole loss", "-", shown(whole)),
        ],
    )


def degrees_as_radians() -> Demonstration:
    rows = [
        ("28.6 degrees", "-", shown(arcface(A, A_LABELS, PROXIES_A, margin_deg=28.6))),
        ("28.6 radians", shown(arcface_without_guard(28.6)), "-"),
        ("0.5 radians", "-", shown(arcface(A, A_LABELS, PROXIES_A, margin_rad=0.5))),
    ]
    return Demonstration(
        "ArcFace's margin of 28.6", "Read as radians it turns the target more than four times around.", rows
    )


def arcface_without_guard(margin: float) -> Tensor:
    """Cross entropy with cos(theta + margin) as the target's cosine, margin in radians, scale 64."""
    cosine = A @ PROXIES_A.T
    angle = cosine.clamp(-1 + 1e-7, 1 - 1e-7).acos()
    own = torch.nn.functional.one_hot(A_LABELS, 3).bool()
    return torch.nn.functional.cross_entropy(64 * torch.where(own, (angle + margin).cos(), cosine), A_LABELS)


def numerator_of_the_angle() -> Demonstration:
    a, p, n = circle(0, 40, 100)
    lengths = (n - a).norm() * (p - a).norm()
    return Demonstration(
        "Eq. 32 away from Eq. 31",
        "Anchor, positive and negative at 0, 40 and 100 degrees.",
        [
            ("cosine of the angle at the anchor", shown((1 - a @ p) / lengths), shown((n - a) @ (p - a) / lengths)),
        ],
    )


ALL: tuple[Callable[[], Demonstration], ...] = (
    temperature_cancels,
    logarithm_without_exponential,
    ratio_of_equals,
    sign_of_the_push,
    shift_without_mask,
    numerator_of_the_angle,
    indicator_of_margin,
    degrees_as_radians,
)
