"""Class vectors: starts, seeds, refusals."""

import math

import pytest
import torch

from similis.objective.comparison.proxies import Size, initial_proxies, one_per_class
from similis.values import UserError


def size(classes=300, dim=64, seed=0):
    return Size(classes, dim, torch.Generator().manual_seed(seed))


def test_unit_gaussians_are_directions_without_a_preference():
    vectors = initial_proxies(size(), per_class=2, start="unit_gaussian")
    assert torch.allclose(vectors.norm(dim=-1), torch.ones(300, 2))
    assert vectors.mean((0, 1)).abs().max() < 5 / math.sqrt(64 * 600)


@pytest.mark.parametrize(("per_class", "rows"), [(None, 300), (2, 600)])
def test_kaiming_normal_counts_all_vectors_as_fan_out(per_class, rows):
    vectors = initial_proxies(size(), per_class, start="kaiming_normal")
    assert float(vectors.std()) == pytest.approx(math.sqrt(2 / rows), rel=0.02)


def test_kaiming_uniform_fills_its_bounds():
    vectors, bound = initial_proxies(size(), None, start="kaiming_uniform"), math.sqrt(6 / 64)
    assert vectors.abs().max() <= bound
    assert float(vectors.std()) == pytest.approx(bound / math.sqrt(3), rel=0.02)


@pytest.mark.parametrize("start", ["unit_gaussian", "kaiming_normal", "kaiming_uniform"])
def test_the_generator_alone_decides(start):
    torch.manual_seed(1)
    first = one_per_class(start)(size(seed=4))
    torch.manual_seed(2)
    assert torch.equal(first, one_per_class(start)(size(seed=4)))
    assert not torch.equal(first, one_per_class(start)(size(seed=5)))


@pytest.mark.parametrize(("classes", "dim"), [(None, 8), (8, None)])
def test_missing_sizes_are_asked_for(classes, dim):
    with pytest.raises(UserError, match=f"num_classes is {classes} and dim is {dim}; pass both"):
        initial_proxies(size(classes, dim))


def test_no_vector_per_class_is_refused():
    with pytest.raises(UserError, match="at least 1"):
        initial_proxies(size(), per_class=0)
