"""Angular margins: one spelling, in bounds; a margin of zero."""

import math

import pytest
import torch

from similis.objective.comparison.angles import cosine_of_widened_angle, margin_in_radians
from similis.values import UserError


def test_one_spelling_of_the_margin():
    assert margin_in_radians(90.0, None) == pytest.approx(math.pi / 2)
    assert margin_in_radians(None, 0.5) == 0.5
    with pytest.raises(UserError, match="not both"):
        margin_in_radians(28.6, 0.5)


@pytest.mark.parametrize("margin", [28.6, -0.1, math.pi])
def test_margins_that_are_no_angle_below_pi_are_refused(margin):
    with pytest.raises(UserError, match="from 0 to below pi"):
        margin_in_radians(None, margin)


def test_margin_zero_gives_the_cosine_back_to_the_last_digit():
    cosine = torch.tensor([-1.0, -0.3, 0.0, 0.7, 1.0], dtype=torch.float64)
    assert torch.equal(cosine_of_widened_angle(cosine, 0.0, guard=True), cosine)
