"""Neighbours by way of bfloat16 are those of float32, also where the bound cannot certify them."""

from __future__ import annotations

import pytest
import torch

from similis.retrieval import search as module
from similis.retrieval.certified import certify, error_bound, prefers_bfloat16, rough_rows, score_again
from similis.retrieval.search import certified_top, hidden_members, search, top
from similis.retrieval.similarity import as_gallery, similarities


def vectors(count, dim, seed=0, scale=0.0):
    chance = torch.Generator().manual_seed(seed)
    x = torch.nn.functional.normalize(torch.randn(count, dim, generator=chance))
    return x * (1 + scale * torch.rand(count, 1, generator=chance))


@pytest.mark.parametrize("scale", [0.0, 5.0])
@pytest.mark.parametrize("dim", [3, 64, 300])
def test_the_bound_holds_for_every_pair(dim, scale):
    queries, gallery = vectors(40, dim, 1, scale), vectors(700, dim, 2, scale)
    rows = rough_rows(gallery)
    rough = (queries.bfloat16() @ rows.vectors.T).double()
    exact = queries.double() @ gallery.double().T
    bound = error_bound(queries, rows).double()
    assert ((rough - exact).abs() <= bound).all()
    assert (bound < 0.03 * (1 + scale) ** 2).all()  # and it is of use


@pytest.mark.parametrize("k", [1, 10, 100])
def test_certified_neighbours_are_those_of_float32(k):
    queries, gallery = vectors(60, 64, 1), as_gallery(vectors(4000, 64, 2))
    ids = (torch.arange(60), torch.arange(4000) % 900)
    rows, hidden = torch.arange(60), hidden_members(ids, None)
    found = certified_top(queries, gallery, rough_rows(gallery.vectors), k, rows=rows, hidden=hidden)
    expected = search(queries, gallery, k, ids=ids)
    assert torch.equal(found[1], expected.index)
    torch.testing.assert_close(found[0], expected.similarity)


def test_most_queries_of_clusters_are_certain_and_none_of_equal_rows():
    centres = vectors(400, 64, 3)
    gallery = torch.nn.functional.normalize(centres.repeat(10, 1) + 0.7 * vectors(4000, 64, 4))
    queries, rows = vectors(50, 64, 3), rough_rows(gallery)
    rough = queries.bfloat16() @ rows.vectors.T
    assert certify(rough, queries, gallery, rows, 5)[2].float().mean() > 0.8
    twice = torch.cat([gallery, gallery])
    rows = rough_rows(twice)
    certain = certify(queries.bfloat16() @ rows.vectors.T, queries, twice, rows, 5)[2]
    assert not certain.any()
    places = certified_top(queries, as_gallery(twice), rows, 5, rows=torch.arange(50), hidden=())[1]
    assert torch.equal(places, top(similarities(queries, as_gallery(twice)), 5)[1])


def test_a_row_that_rounding_hides_is_found_by_the_fall_back():
    """A crowd within the bound of the best row: the candidates alone would miss it."""
    base = vectors(1, 64, 5)
    crowd = torch.nn.functional.normalize(base + 2e-4 * vectors(3000, 64, 6))
    query = vectors(1, 64, 7)
    rows = rough_rows(crowd)
    rough = query.bfloat16() @ rows.vectors.T
    assert not certify(rough, query, crowd, rows, 3)[2].any()
    found = certified_top(query, as_gallery(crowd), rows, 3, rows=torch.arange(1), hidden=())[1]
    assert torch.equal(found, search(query, crowd, 3).index)


def test_scoring_again_in_parts(monkeypatch):
    queries, gallery = vectors(9, 8, 1), vectors(50, 8, 2)
    columns = torch.randint(0, 50, (9, 6), generator=torch.Generator().manual_seed(0))
    whole = score_again(queries, gallery, columns)
    monkeypatch.setattr("similis.retrieval.certified.TILE", 100)
    torch.testing.assert_close(score_again(queries, gallery, columns), whole)
    torch.testing.assert_close(whole, (queries @ gallery.T).gather(1, columns))


def test_search_takes_the_way_that_was_measured(monkeypatch):
    queries, gallery = vectors(30, 32, 1), vectors(5000, 32, 2)
    plain = search(queries, gallery, 5)
    asked = []
    monkeypatch.setattr(module, "LARGE", 1)
    monkeypatch.setattr(module, "prefers_bfloat16", lambda dim, device: asked.append((dim, device)) or True)
    found = search(queries, gallery, 5, tile=5000 * 128)
    assert asked == [(32, "cpu")]
    assert torch.equal(found.index, plain.index)
    search(queries, gallery, 200)  # too many neighbours, other types: float32 as ever
    search(queries.double(), gallery.double(), 5)
    assert len(asked) == 1


@pytest.mark.parametrize(("seconds", "answer"), [(0.5, True), (0.9, False), (50.0, False)])
def test_bfloat16_is_chosen_where_it_is_much_faster(monkeypatch, seconds, answer):
    def measure(left, right, times):
        return seconds if left.dtype == torch.bfloat16 else 1.0

    monkeypatch.setattr("similis.retrieval.certified._seconds", measure)
    prefers_bfloat16.cache_clear()
    assert prefers_bfloat16(64, "cpu") is answer
    prefers_bfloat16.cache_clear()
