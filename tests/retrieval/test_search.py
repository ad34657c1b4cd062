"""Exact search: equal to sorting everything, by id and group, ties by row, any k and tile."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from similis.retrieval.search import search, top
from similis.retrieval.similarity import as_gallery, column_blocks, similarities, to_comparable
from similis.values import UserError


def sorted_whole(queries, gallery, k, hidden):
    """Plain loops on dot products; equal ones by row."""
    rows = []
    for q, query in enumerate(queries):
        scores = [
            (-sum(a * b for a, b in zip(query, one, strict=True)), g)
            for g, one in enumerate(gallery)
            if not hidden(q, g)
        ]
        rows.append(([g for _, g in sorted(scores)] + [-1] * k)[:k])
    return rows


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_equals_sorting_everything(data):
    vector = st.lists(st.integers(-2, 2), min_size=2, max_size=2)
    queries = data.draw(st.lists(vector, min_size=1, max_size=8))
    gallery = data.draw(st.lists(vector, min_size=1, max_size=20))
    keys = lambda part: data.draw(st.lists(st.integers(-1, 4), min_size=len(part), max_size=len(part)))  # noqa: E731
    ids, groups = (keys(queries), keys(gallery)), (keys(queries), keys(gallery))
    k, tile = data.draw(st.integers(1, 25)), data.draw(st.integers(1, 200))
    found = search(
        torch.tensor(queries, dtype=torch.float64), torch.tensor(gallery, dtype=torch.float64), k, similarity="dot",
        ids=(torch.tensor(ids[0]), torch.tensor(ids[1])), groups=(torch.tensor(groups[0]), torch.tensor(groups[1])),
        tile=tile,
    )  # fmt: skip
    hidden = lambda q, g: ids[0][q] == ids[1][g] or (groups[0][q] == groups[1][g] >= 0)  # noqa: E731
    assert found.index.tolist() == sorted_whole(queries, gallery, k, hidden)
    assert ((found.index < 0) == (found.similarity == -math.inf)).all()


@pytest.mark.parametrize("k", [1, 3, 12, 200, 4999, 5000])
@pytest.mark.parametrize("levels", [1, 5, 300, 10**9])
def test_top_equals_a_stable_sort_with_few_and_many_ties(k, levels):
    tile = torch.randint(0, levels, (7, 5000), generator=torch.Generator().manual_seed(k)).double()
    tile[2, ::3] = -math.inf
    values, columns = top(tile, k)
    want, order = tile.sort(dim=1, descending=True, stable=True)
    assert torch.equal(values, want[:, :k])
    seen = values > -math.inf
    assert torch.equal(columns[seen], order[:, :k][seen])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_cosine_does_not_see_lengths(dtype):
    x = torch.randn(40, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    longer = x * torch.tensor([1.0, 4.0]).repeat(20).to(dtype)[:, None]
    straight, scaled = search(x, x, 5), search(longer, longer, 5)
    assert torch.equal(straight.index, scaled.index)
    assert straight.index[:, 0].tolist() == list(range(40))
    assert straight.similarity.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert straight.similarity[:, 0].tolist() == pytest.approx([1.0] * 40, abs=1e-6)


def test_the_query_is_left_out_by_id_and_its_copy_is_found():
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    rows = torch.tensor([2**60, 7, -3])
    assert search(x, x, 1, ids=(rows, rows)).index.tolist() == [[2], [0], [0]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"k": 0}, "1 neighbour or more"),
        ({"k": 1.5}, "k=1.5 given"),
        ({"gallery": torch.ones(3, 5)}, "same dimension"),
        ({"gallery": torch.ones(3, 2).double()}, "same dimension and type"),
        ({"ids": (torch.arange(2), torch.arange(2))}, "one for each row"),
        ({"ids": (torch.ones(2), torch.arange(3))}, "integers"),
        ({"similarity": "euclid"}, "unknown similarity"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    given = {"queries": torch.ones(2, 2), "gallery": torch.ones(3, 2), "k": 1} | arguments
    with pytest.raises(UserError, match=words):
        search(**given)


def test_unit_vectors_keep_their_bits_whatever_stands_beside_them():
    x = torch.nn.functional.normalize(torch.randn(50, 24, generator=torch.Generator().manual_seed(0)))
    assert to_comparable(x).data_ptr() == x.data_ptr()  # no copy
    mixed = torch.cat([x[:3], 5 * x[3:]])
    assert torch.equal(to_comparable(mixed)[:3], x[:3])
    torch.testing.assert_close(to_comparable(mixed), x)
    twice = to_comparable(torch.randn(40, 24, generator=torch.Generator().manual_seed(1)))
    assert torch.equal(to_comparable(twice), twice)


@pytest.mark.parametrize("width", [1, 7, 40, 90])
def test_blocks_of_columns_are_the_tile_and_equal_rows_are_equal_in_all(width):
    x = torch.nn.functional.normalize(torch.randn(30, 24, generator=torch.Generator().manual_seed(0)))
    gallery = as_gallery(torch.cat([x, x[5:], x[:20]]))
    queries = x[:9]
    blocks = [(start, block.clone()) for start, block in column_blocks(queries, gallery, width)]
    assert [start for start, _ in blocks] == list(range(0, 75, width)) or width >= 75
    tile = torch.cat([block for _, block in blocks], dim=1)
    torch.testing.assert_close(tile, similarities(queries, gallery))
    assert torch.equal(tile[:, gallery.repeats], tile[:, gallery.originals])
