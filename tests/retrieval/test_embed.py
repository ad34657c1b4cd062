"""Embedding a data set: its order, the modes of the model, and what must not pass silently."""

import pytest
import torch
from torch import nn

from similis.retrieval.embed import embed
from similis.values import Batch, DataError, UserError


def batches(count, size, order=None):
    x = torch.randn(count, 6, generator=torch.Generator().manual_seed(0))
    rows = torch.arange(count) if order is None else order
    return x, [Batch(x[part], part * 10, part) for part in rows.split(size)]


@pytest.mark.parametrize("count", [None, 23])
def test_order_of_the_data_set_whatever_the_order_of_loading(count):
    shuffled = torch.randperm(23, generator=torch.Generator().manual_seed(1))
    model = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    x, straight = batches(23, 5)
    _, mixed = batches(23, 5, shuffled)
    expected = model.eval()(x).detach()
    model.train()
    for loaded in (straight, mixed, iter(mixed)):
        found = embed(model, loaded, count=count)
        torch.testing.assert_close(found.vectors, expected, rtol=0, atol=1e-6)
        assert found.ids.tolist() == list(range(23))
        assert found.labels.tolist() == [10 * row for row in range(23)]


def test_every_part_returns_to_its_own_mode():
    frozen = nn.BatchNorm1d(6).eval()
    model = nn.Sequential(frozen, nn.Dropout(0.5))
    model.training = True
    _, loaded = batches(8, 4)
    embed(model, loaded, count=8)
    assert (model.training, frozen.training, model[1].training) == (True, False, True)
    assert frozen.num_batches_tracked == 0
    with pytest.raises(RuntimeError):
        embed(nn.Sequential(model, nn.Linear(3, 1)), loaded, count=8)
    assert (model.training, frozen.training, model[1].training) == (True, False, True)


@pytest.mark.parametrize("count", [None, 8])
def test_vectors_may_enter_a_graph_afterwards(count):
    found = embed(nn.Identity(), batches(8, 4)[1], count=count)
    head = nn.Linear(6, 2)
    head(found.vectors).sum().backward()
    assert head.weight.grad is not None
    assert not found.vectors.is_inference()


@pytest.mark.parametrize("count", [None, 8])
@pytest.mark.parametrize(("given", "kept"), [(torch.bfloat16, torch.float32), (torch.float64, torch.float64)])
def test_half_precision_is_stored_wide(count, given, kept):
    assert embed(lambda images: images.to(given), batches(8, 3)[1], count=count).vectors.dtype == kept


def test_batches_are_not_aliased():
    x, loaded = batches(4, 4)
    found = embed(lambda images: images, loaded)
    x.zero_()
    loaded[0].images.zero_()
    assert found.vectors.abs().sum() > 0


@pytest.mark.parametrize(
    ("count", "loaded", "error", "words"),
    [
        (9, batches(8, 4)[1], DataError, "8 images came, 9 were announced"),
        (7, batches(8, 4)[1], DataError, "7 were announced"),
        (None, [], DataError, "nothing to embed"),
        (None, batches(4, 4)[1] * 2, DataError, "more than once, first 0"),
        (None, [Batch(torch.ones(2, 3), torch.ones(1).long(), torch.arange(2))], UserError, "one label"),
        (None, [Batch(torch.ones(2, 3, 1), torch.ones(2).long(), torch.arange(2))], UserError, "one vector"),
    ],
)
def test_what_is_missing_double_or_misshapen_is_said(count, loaded, error, words):
    with pytest.raises(error, match=words):
        embed(lambda images: images, loaded, count=count)
