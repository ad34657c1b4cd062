"""The door to faiss: flat is exact, the others find most, files come back the same."""

import sys

import pytest
import torch

from similis.retrieval.index import build_index, load_index
from similis.retrieval.search import search
from similis.values import DataError, MissingExtraError, UserError

ROWS = 10_000


@pytest.fixture(scope="module")
def vectors():
    chance = torch.Generator().manual_seed(0)
    centres = torch.randn(200, 16, generator=chance)
    return centres[torch.arange(ROWS) % 200] + 0.3 * torch.randn(ROWS, 16, generator=chance)


@pytest.mark.parametrize(("kind", "least"), [("flat", 1.0), ("hnsw", 0.95), ("ivf-pq", 0.3)])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_finds_and_survives_the_disk(vectors, kind, least, similarity, tmp_path):
    index = build_index(vectors, kind=kind, similarity=similarity, lists=32)
    assert len(index) == ROWS
    exact = search(vectors[:100], vectors, 10, similarity=similarity)
    found = index.search(vectors[:100], 10)
    common = [len(set(a) & set(b)) for a, b in zip(exact.index.tolist(), found.index.tolist(), strict=True)]
    assert sum(common) / 1000 >= least
    assert (found.similarity[:, :-1] >= found.similarity[:, 1:]).all()
    index.save(tmp_path / "rows.index")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.index"]
    again = load_index(tmp_path / "rows.index", similarity=similarity).search(vectors[:100], 10)
    assert torch.equal(again.index, found.index)
    assert torch.equal(again.similarity, found.similarity)


def test_more_neighbours_than_rows():
    found = build_index(torch.eye(3)).search(torch.eye(3)[:1], 5)
    assert found.index.tolist()[0][3:] == [-1, -1]
    assert found.similarity.tolist()[0][3:] == [-float("inf")] * 2


def test_refusals_say_what_to_do(vectors, tmp_path):
    with pytest.raises(UserError, match="did you mean 'hnsw'"):
        build_index(vectors, kind="hnws")
    with pytest.raises(UserError, match="use kind='flat'"):
        build_index(vectors[:100], kind="ivf-pq")
    with pytest.raises(UserError, match="divide"):
        build_index(vectors, kind="ivf-pq", code_bytes=5)
    with pytest.raises(UserError, match=r"\(Q, 16\)"):
        build_index(vectors).search(torch.ones(1, 3), 1)
    with pytest.raises(DataError, match="no index at"):
        load_index(tmp_path / "none")


def test_without_faiss_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"similis\[search\]"):
        build_index(torch.eye(3))
