"""Batches divided over processes: shares, contexts, scaled gradients. Real processes: tests/multiprocess."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from similis.objective.joining import (
    Joint,
    batch_size,
    classes_here,
    communicator_here,
    divided,
    joined,
    number_of_classes,
    scaled_gradient,
    shares,
)


class Second:
    """The second of three processes; the others are known to have 4 and 1 rows."""

    rank, world = 1, 3

    def counts(self, rows):
        return (4, rows, 1)


@given(st.integers(0, 200), st.integers(1, 20))
def test_shares_differ_by_one_at_most(rows, world):
    found = shares(rows, world)
    assert len(found) == world
    assert sum(found) == rows
    assert max(found) - min(found) <= 1
    assert list(found) == sorted(found, reverse=True)


def test_a_joint_knows_its_place():
    joint = Joint(Second(), (4, 2, 1))
    assert (joint.first, joint.own, joint.size) == (4, 2, 7)


def test_contexts_end():
    assert communicator_here() is None
    with joined(Second()):
        assert communicator_here().rank == 1
        assert batch_size(2) == 7
        with joined(None):
            assert batch_size(2) == 2
    assert communicator_here() is None
    with divided(Joint(Second(), (4, 2, 1))):
        assert number_of_classes(torch.zeros(2, 3)) == 7
    assert classes_here() is None
    assert number_of_classes(torch.zeros(2, 3)) == 2


def test_only_the_gradient_is_scaled():
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    value = scaled_gradient(x, 0.25)
    assert torch.equal(value, x)
    value.square().sum().backward()
    assert x.grad.tolist() == [0.5, 1.5]
