"""Embedding, search, evaluation, clustering and offline mining give on the device what they give on the CPU."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from similis.data.transforms import normalise
from similis.retrieval.embed import embed
from similis.retrieval.evaluate import evaluate
from similis.retrieval.offline_mining import mine_offline
from similis.retrieval.search import search
from similis.values import Batch, Embedded, Preprocessing
from tests.accelerator.equality import assert_same, batch


def embedded(device, rows=150):
    x, labels = batch(rows)
    x[7] = x[3]
    return Embedded(x.to(device), labels, torch.arange(rows))


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("tile", [pytest.param(1, marks=pytest.mark.slow), 2**24])
def test_evaluate(device, similarity, tile):
    groups, asking = torch.arange(150) % 9 - 1, torch.arange(0, 150, 2)
    want, got = (
        dataclasses.asdict(
            evaluate(embedded(where), queries=asking, groups=groups, similarity=similarity, clustering=True, tile=tile)
        )
        for where in ("cpu", device)
    )
    assert got["matches"].is_cpu
    assert_same(got, want, device)


@pytest.mark.parametrize("ids", [False, True])
def test_search_with_ids_of_the_host(device, ids):
    rows = torch.arange(150)
    want, got = (
        search(x, x, 5, ids=(rows, rows) if ids else None, groups=(rows % 4, rows % 4))
        for x in (embedded("cpu").vectors, embedded(device).vectors)
    )
    assert_same(got, want, device)


@pytest.mark.parametrize("tile", [1, 2**24])
@pytest.mark.parametrize("kind", ["hard", "semi_hard"])
def test_offline_mining_ends_on_the_host(device, kind, tile):
    want, got = (
        mine_offline(embedded(where), 3, kind=kind, generator=torch.Generator().manual_seed(1), tile=tile)
        for where in ("cpu", device)
    )
    assert got.positives.is_cpu
    assert_same(got, want, device)


@pytest.mark.parametrize("count", [None, 150])
def test_embed(device, count):
    x, labels = batch(150)
    order = torch.randperm(150, generator=torch.Generator().manual_seed(0))
    batches = [Batch(x[rows], labels[rows], rows) for rows in order.split(40)]
    made = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Dropout(0.5))
    want, got = (embed(made.to(where), batches, count=count, device=where) for where in (torch.device("cpu"), device))
    assert_same(got, want, device)


@pytest.mark.parametrize("top", [1.0, 255.0])
def test_pixels_are_normalised_on_the_device(device, top):
    pixels = torch.randint(256, (2, 8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    wish = Preprocessing(mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6), top=top, channels="bgr")
    assert_same(normalise(pixels.to(device), wish), normalise(pixels, wish), device)
