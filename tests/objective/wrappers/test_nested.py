"""Nested sizes: the worked number, the mean over sizes, cut proxies get their gradients."""

import numpy as np
import pytest
import torch

from similis.objective.loss import loss
from similis.objective.wrappers.nested import Nested
from similis.values import UserError
from tests.batches import A_LABELS, random_batch


def test_worked_number():
    generator = np.random.default_rng(0)
    x, proxies = generator.normal(size=(6, 8)), generator.normal(size=(3, 8))
    base = loss("normface", num_classes=3, dim=8, scale=16.0).double()
    base.learned["proxies"].data = torch.from_numpy(proxies)
    assert Nested(base, (2, 4, 8))(torch.from_numpy(x), A_LABELS).item() == pytest.approx(9.14449922, abs=1e-6)


def test_it_is_the_mean_of_the_losses_on_the_leading_parts():
    x, labels = random_batch(1)
    base = loss("triplet", geometry="euclid")
    parts = [base(x[:, :m], labels).item() for m in (1, 3, 5)]
    assert Nested(base, (1, 3, 5))(x, labels).item() == pytest.approx(np.mean(parts), abs=1e-12)


def test_class_vectors_learn_in_every_coordinate():
    x, labels = random_batch(2)
    base = loss("proxy_anchor", num_classes=4, dim=5).double()
    Nested(base, (2, 5))(x, labels).backward()
    assert (base.learned["proxies"].grad.abs().sum(0) > 0).all()


@pytest.mark.parametrize("sizes", [(), (4, 2), (2, 2), (0, 2)])
def test_sizes_that_make_no_sense_are_refused(sizes):
    with pytest.raises(UserError, match="rising sizes"):
        Nested(loss("triplet"), sizes)


def test_sizes_beyond_the_embedding_are_refused():
    with pytest.raises(UserError, match="largest size is 9"):
        Nested(loss("triplet"), (2, 9))(*random_batch(0))
