"""Gradient caching gives the gradients of the whole batch, on a small model and at scale."""

import pytest
import torch
from torch import nn

from similis.objective.loss import loss
from similis.training.gradient_cache import GradientCache, cached_embeddings, check_batch_norm
from similis.training.randomness import use_seed
from similis.values import UserError
from tests.training.small import FEATURES, Perceptron, batches

NAMES = ["triplet", "proxy_anchor"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chunk", [3, 8, 50])
def test_gradients_equal_the_direct_ones(name, chunk):
    batch = batches(0, 0)[0]
    images = batch.images.double()
    criterion = loss(name, num_classes=4, dim=5).double()
    direct, cached = Perceptron().double(), Perceptron().double()
    pieces = []
    for number, part in enumerate(images.split(chunk)):
        with use_seed(3, 0, number):
            pieces.append(direct(part))
    expected = criterion(torch.cat(pieces), batch.labels)
    expected.backward()
    wanted = [p.grad for p in [*direct.parameters(), *criterion.parameters()]]
    criterion.zero_grad()
    value = criterion(cached_embeddings(cached, images, chunk=chunk, seeds=(3, 0)), batch.labels)
    value.backward()
    got = [p.grad for p in [*cached.parameters(), *criterion.parameters()]]
    assert value.item() == pytest.approx(expected.item(), abs=1e-12)
    assert max(float((a - b).abs().max()) for a, b in zip(got, wanted, strict=True)) < 1e-12


def test_as_a_loss_it_has_the_parameters_of_its_loss():
    batch = batches(0, 0)[0]
    model, criterion = Perceptron(), loss("proxy_anchor", num_classes=4, dim=5)
    cache = GradientCache(model, criterion, chunk=3)
    assert [p is q for p, q in zip(cache.parameters(), criterion.parameters(), strict=True)] == [True]
    assert cache.parameter_groups(0.1)[0]["lr"] == criterion.parameter_groups(0.1)[0]["lr"]
    with torch.no_grad():
        assert not cache(batch.images, batch.labels).requires_grad
    with pytest.raises(UserError, match="chunk is 0"):
        GradientCache(model, criterion, chunk=0)


def test_small_batches_accumulated_are_something_else():
    """What caching is for: the mean of the chunks' losses has another gradient."""
    batch = batches(0, 0)[0]
    model, criterion = Perceptron(0.0).double(), loss("triplet")
    images = batch.images.double()
    for part, labels in zip(images.split(4), batch.labels.split(4), strict=True):
        (criterion(model(part), labels) / 2).backward()
    naive = model.head.weight.grad.clone()
    model.zero_grad()
    GradientCache(model, criterion, chunk=4)(images, batch.labels).backward()
    assert not torch.allclose(naive, model.head.weight.grad, rtol=1e-2)


@pytest.mark.parametrize("shared", [{"world": 2}, {"chunk": 4}])
def test_trained_batch_norm_is_refused(shared):
    model = nn.Sequential(nn.Linear(FEATURES, 4), nn.BatchNorm1d(4))
    check_batch_norm(model)
    with pytest.raises(UserError, match="batch statistics of 1"):
        check_batch_norm(model, **shared)
    check_batch_norm(model.eval(), **shared)


IMAGES, CHUNK = 8192, 64


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(8 * 6 * 6, 16))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["supcon", "triplet", "proxy_anchor"])
def test_gradients_are_those_of_the_whole_batch(name):
    """The direct pass draws the same dropout, chunk by chunk, but keeps every activation."""
    pictures = torch.rand(IMAGES, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(IMAGES) // 4
    criterion = loss(name, num_classes=IMAGES // 4, dim=16)
    cached, direct = model(), model()
    criterion(cached_embeddings(cached, pictures, chunk=CHUNK, seeds=(5,)), labels).backward()
    own = [p.grad.clone() for p in criterion.parameters()]
    criterion.zero_grad()
    parts = []
    for number, part in enumerate(pictures.split(CHUNK)):
        with use_seed(5, number):
            parts.append(direct(part))
    criterion(torch.cat(parts), labels).backward()
    pairs = [(a.grad, b.grad) for a, b in zip(cached.parameters(), direct.parameters(), strict=True)]
    for got, want in pairs + list(zip(own, [p.grad for p in criterion.parameters()], strict=True)):
        assert (got - want).abs().max() <= 1e-5 * max(1.0, float(want.abs().max()))
