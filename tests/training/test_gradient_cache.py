"""Gradient caching gives the gradients of the whole batch."""

import pytest
import torch
from torch import nn

from similis.objective.loss import loss
from similis.training.gradient_cache import GradientCache, cached_embeddings, check_batch_norm
from similis.training.randomness import use_seed
from similis.values import UserError
from tests.training.small import FEATURES, Perceptron, batches

NAMES = ["supcon", "triplet", "proxy_anchor"]


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


def test_as_a_loss_it_has_the_gradients_and_the_parameters_of_its_loss():
    batch = batches(0, 0)[0]
    model, criterion = Perceptron(0.0), loss("proxy_anchor", num_classes=4, dim=5)
    cache = GradientCache(model, criterion, chunk=3)
    assert [p is q for p, q in zip(cache.parameters(), criterion.parameters(), strict=True)] == [True]
    assert cache.parameter_groups(0.1)[0]["lr"] == criterion.parameter_groups(0.1)[0]["lr"]
    (direct,) = torch.autograd.grad(criterion(model(batch.images), batch.labels), [model.head.weight])
    cache(batch.images, batch.labels).backward()
    torch.testing.assert_close(model.head.weight.grad, direct)
    with torch.no_grad():
        assert not cache(batch.images, batch.labels).requires_grad
    with pytest.raises(UserError, match="chunk is 0"):
        GradientCache(model, criterion, chunk=0)


@pytest.mark.parametrize("shared", [{"world": 2}, {"chunk": 4}])
def test_trained_batch_norm_is_refused(shared):
    model = nn.Sequential(nn.Linear(FEATURES, 4), nn.BatchNorm1d(4))
    check_batch_norm(model)
    with pytest.raises(UserError, match="batch statistics of 1"):
        check_batch_norm(model, **shared)
    check_batch_norm(model.eval(), **shared)
