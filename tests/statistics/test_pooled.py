"""Pooled claims: the unit is named, and two units that disagree make no claim."""

import numpy as np
import pytest
from scipy import stats

from similis.study.statistics.pooled import pooled_claim
from similis.values import UserError


def table(losses, repetitions):
    """Differences in points: an effect for each loss and one for each repetition."""
    return (np.array(losses, dtype=float)[:, None] + np.array(repetitions, dtype=float)[None, :]) / 100


def test_two_units_can_give_opposite_verdicts():
    """Half of the losses gain nine points and half lose five, each time: sure for these losses, open for others."""
    mixed = table([9, 9, 9, -5, -5, -5], [0.1, -0.1, 0.0, 0.05, -0.05])
    claim = pooled_claim(mixed, "repetitions")
    assert (claim.named.unit, claim.named.verdict) == ("repetitions", "better")
    assert (claim.other.unit, claim.other.verdict) == ("losses", "undecided")
    assert claim.describe("A against B").startswith(
        "A against B: over 5 repetitions better (+2.00 points, 95 % interval +1.90 to +2.10"
    )
    assert "; over 6 losses undecided (+2.00 points" in claim.describe("A against B")
    assert claim.describe("A against B").endswith("; the units disagree, so there is no general claim.")
    turned = pooled_claim(mixed, "losses")
    assert (turned.named, turned.other) == (claim.other, claim.named)


def test_losses_can_agree_where_repetitions_do_not():
    claim = pooled_claim(table([0.1, -0.1, 0.05, -0.05], [9, -5, 8, -4]), "losses")
    assert (claim.named.verdict, claim.other.verdict) == ("better", "undecided")
    assert not claim.agrees


@pytest.mark.parametrize(("sign", "verdict"), [(1, "better"), (-1, "worse"), (0, "equivalent")])
def test_units_that_agree_make_a_claim(sign, verdict):
    losses = np.array([-0.2, 0.0, 0.2, 0.1]) + 5 * sign
    claim = pooled_claim(table(losses, [0.1, -0.1, 0.02]), "losses")
    assert claim.agrees
    assert claim.named.verdict == claim.other.verdict == verdict
    assert "general claim" not in claim.describe("A against B")


def test_the_numbers_are_those_of_a_t_test():
    chance = np.random.default_rng(0).normal(0.01, 0.03, (7, 4))
    claim = pooled_claim(chance, "losses")
    for verdict, axis in ((claim.named, 1), (claim.other, 0)):
        expected = stats.ttest_1samp(chance.mean(axis=axis), 0.0)
        interval = expected.confidence_interval()
        assert verdict.p == pytest.approx(expected.pvalue)
        assert (verdict.low, verdict.high) == pytest.approx((100 * interval.low, 100 * interval.high))


def test_the_unit_must_be_named_and_the_table_large_enough():
    with pytest.raises(UserError, match="losses or repetitions"):
        pooled_claim(np.zeros((4, 4)), "seeds")
    with pytest.raises(UserError, match="at least 3 of each"):
        pooled_claim(np.zeros((4, 2)), "losses")


def test_constant_differences():
    assert pooled_claim(np.zeros((3, 3)), "losses").named.verdict == "equivalent"
    assert pooled_claim(np.full((3, 3), 0.5), "losses").named.verdict == "better"
