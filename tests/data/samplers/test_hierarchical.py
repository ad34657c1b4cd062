"""Hierarchical batches: G super-classes, P / G classes of each, K images of each class."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from similis.data.samplers.hierarchical import hierarchical
from similis.values import UserError


@given(st.lists(st.integers(2, 5), min_size=2, max_size=5), st.integers(2, 6), st.integers(1, 2), st.integers(0, 99))
def test_form(classes_of, images, supers, epoch):
    groups = torch.tensor([s for s, c in enumerate(classes_of) for _ in range(c * images)])
    labels = torch.arange(sum(classes_of)).repeat_interleave(images)
    batch_size = supers * 2 * 2
    batches = hierarchical(
        labels, groups=groups, batch_size=batch_size, seed=0, epoch=epoch, per_class=2, supers=supers
    )
    assert batches.shape == (len(labels) // batch_size, batch_size)
    for batch in batches:
        assert len(groups[batch].unique()) == supers
        assert len(labels[batch].unique()) == 2 * supers
        assert len(batch.unique()) == batch_size
    assert torch.equal(
        batches,
        hierarchical(labels, groups=groups, batch_size=batch_size, seed=0, epoch=epoch, per_class=2, supers=supers),
    )


def test_equal_super_classes_are_covered_wholly():
    labels = torch.arange(12).repeat_interleave(4)
    batches = hierarchical(labels, groups=labels // 3, batch_size=12, seed=0, epoch=0, per_class=2, supers=2)
    assert len(batches.unique()) == len(labels)


def test_impossible_ones_are_refused():
    labels = torch.arange(12).repeat_interleave(4)
    options = {"seed": 0, "epoch": 0, "per_class": 2}
    with pytest.raises(UserError, match="do not divide"):
        hierarchical(labels, groups=labels // 3, batch_size=10, supers=2, **options)
    with pytest.raises(UserError, match="only 4"):
        hierarchical(labels, groups=labels // 3, batch_size=20, supers=5, **options)
    with pytest.raises(UserError, match="belongs to one"):
        hierarchical(labels, groups=torch.arange(48) // 3, batch_size=8, supers=2, **options)
