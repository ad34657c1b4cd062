"""The index: flat is exact, the others find most, files come back the same, the cheapest kind that is enough wins."""

import importlib
import sys

import numpy as np
import pytest
import torch

from benchmarks.retrieval_cost import index_bytes
from similis.engine.executor import Executor
from similis.model.index_folder import load_index, save_index
from similis.retrieval.index import build_index
from similis.retrieval.index_build import RowFile, build_codes
from similis.retrieval.index_choice import Measured, Target, choose_codes, draw_trial, lower_bound, nearest, recall_of
from similis.retrieval.index_kinds import KINDS, LADDER, search_codes
from similis.retrieval.search import search
from similis.values import DataError, MissingExtraError, UserError

ROWS, DIM, CLASSES = 2000, 32, 100
LABELS = [f"kind{row % CLASSES}" for row in range(ROWS)]


@pytest.fixture(scope="module")
def vectors():
    chance = torch.Generator().manual_seed(0)
    centres = torch.randn(CLASSES, DIM, generator=chance)
    return centres[torch.arange(ROWS) % CLASSES] + 0.5 * torch.randn(ROWS, DIM, generator=chance)


@pytest.mark.parametrize(
    ("kind", "similarity"),
    [*((kind, "cosine") for kind in KINDS), ("flat", "dot"), ("binary", "dot"), ("ivf-pq", "dot")],
)
def test_finds_filters_and_survives_the_disk(vectors, kind, similarity, tmp_path, monkeypatch):
    monkeypatch.setattr("similis.retrieval.index.FEW", 1000)
    index = build_index(vectors, labels=LABELS, kind=kind, similarity=similarity, effort=KINDS[kind].efforts[-1])
    assert index.memory() == pytest.approx(index_bytes(kind, ROWS, DIM), rel=0.3)  # the table of docs/retrieval.md
    queries, exact = vectors[:50], search(vectors[:50], vectors, 10, similarity=similarity)
    found = index.search(queries, 10)
    assert recall_of(found.index, exact.index).mean() >= (1.0 if kind == "flat" else 0.97)
    same = found.index == exact.index
    assert torch.allclose(found.similarity[same], exact.similarity[same], atol=1e-4 * vectors.norm(dim=1).max() ** 2)
    halves = [f"kind{number}" for number in range(0, CLASSES, 2)]  # 1,000 rows: compared exactly
    many = [f"kind{number}" for number in range(75)]  # 1,500 rows: by faiss's own selector
    for labels, wanted in ((halves, lambda rows: rows % 2 == 0), (many, lambda rows: rows % CLASSES < 75)):
        near = index.search(queries, 10, labels=labels).index
        assert (near >= 0).all()
        assert wanted(near).all()
    again = load_index(save_index(index, tmp_path / "kept"), verify=True)
    assert all(torch.equal(a, b) for a, b in zip(again.search(queries, 10), found, strict=True))
    assert [again.entry(row) for row in range(ROWS)] == [(str(row), LABELS[row]) for row in range(ROWS)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("flat", "hnsw")])
def test_shards_that_are_merged_are_the_index_of_one_process(vectors, kind, tmp_path):
    rows = np.ascontiguousarray(torch.nn.functional.normalize(vectors).numpy())
    rows.tofile(tmp_path / "rows")
    merged = build_codes(kind, RowFile(tmp_path / "rows", ROWS, DIM), Executor(2), tmp_path)
    alone = build_codes(kind, rows)
    sides = [search_codes(codes, kind, 4, rows[:50], 5, allowed=None) for codes in (merged, alone)]
    assert np.array_equal(*sides)
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]


def test_searches_after_faiss_was_changed_for_tensors():
    """pytorch-metric-learning imports faiss.contrib.torch_utils, which replaces the search of every index."""
    importlib.import_module("faiss.contrib.torch_utils")
    index = build_index(torch.eye(3).repeat(4, 1), kind="int8")
    assert sorted(index.search(torch.eye(3)[:1], 4).index[0].tolist()) == [0, 3, 6, 9]


def test_more_neighbours_than_rows():
    found = build_index(torch.eye(3)).search(torch.eye(3)[:1], 5)
    assert found.index.tolist()[0][3:] == [-1, -1]
    assert found.similarity.tolist()[0][3:] == [-float("inf")] * 2


def test_an_index_is_bound_to_its_model(tmp_path):
    stamped = save_index(build_index(torch.eye(3), model_hash="a" * 64), tmp_path / "stamped")
    bare = save_index(build_index(torch.eye(3)), tmp_path / "bare")
    assert load_index(stamped, model_hash="a" * 64).model_hash == "a" * 64
    for folder in (stamped, bare):
        with pytest.raises(UserError, match="index with one model"):
            load_index(folder, model_hash="b" * 64)


def test_saving_replaces_in_one_step_and_damage_is_found(tmp_path, monkeypatch):
    folder = save_index(build_index(torch.eye(3).repeat(4, 1), list("abcdefghijkl"), kind="int8"), tmp_path / "kept")
    with monkeypatch.context() as broken:
        broken.setattr("similis.model.index_folder.About.digest", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            save_index(build_index(torch.eye(4)), folder)
    assert load_index(folder).dim == 3  # the old one
    assert len(list(folder.iterdir())) == 4
    for ending in ("codes", "vectors", "rows"):
        (file,) = folder.glob(f"*.{ending}")
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(DataError, match="checksum"):
            load_index(folder, verify=True)
        file.write_bytes(whole[:-1])
        with pytest.raises(DataError, match="checksum"):  # seen without reading it
            load_index(folder)
        file.unlink()
        with pytest.raises(DataError, match="No such file"):
            load_index(folder)
        file.write_bytes(whole)
    save_index(build_index(torch.eye(4)), folder)
    assert load_index(folder).dim == 4
    assert len(list(folder.iterdir())) == 3
    (folder / "index.json").write_text("{}")
    with pytest.raises(DataError, match="build it again"):
        load_index(folder)


def test_the_cheapest_that_meets_the_target_is_built(vectors):
    rows = torch.nn.functional.normalize(vectors).numpy()
    found = choose_codes(rows, target=Target(0.95), queries=200)
    met = [one for one in found.table if one.lower >= 0.95]
    assert {one.kind for one in found.table} == set(KINDS)
    assert all(one.lower <= one.recall for one in found.table)
    assert found.best.bytes == min(one.bytes for one in met)
    exact = draw_trial(rows, 200, Target(0.95), seed=5)
    near = exact.find(found.codes, found.best.kind, found.best.effort)
    assert recall_of(near, exact.exact).mean() >= 0.93


def test_the_sample_decides_what_is_built_whole(vectors):
    found = choose_codes(
        vectors.numpy(), target=Target(0.9, ROWS * 40), kinds=("flat", "int8"), queries=100, sample=1000
    )
    assert [one.rows for one in found.table] == [1000, 1000]
    assert (found.best.kind, found.best.rows, found.codes.ntotal) == ("int8", ROWS, ROWS)


def test_the_sample_holds_what_the_queries_should_find():
    """A quarter of classes of 40: without their neighbours the queries would find strangers, which codes confuse."""
    chance = torch.Generator().manual_seed(3)
    x = torch.randn(400, 32, generator=chance).repeat_interleave(40, 0)
    x = x + 0.3 * torch.randn(x.shape, generator=chance)
    x = torch.nn.functional.normalize(x).numpy()
    found = choose_codes(x, target=Target(0.9), kinds=("nested",), queries=50, sample=4000)
    assert found.met
    assert (found.table[0].rows, found.best.rows) == (4000, 16_000)
    small = choose_codes(x, target=Target(0.9), kinds=("nested",), queries=50, sample=100)
    assert 100 < small.table[0].rows <= 550  # the queries and their neighbours alone


def test_the_lower_bound_holds_in_nineteen_of_twenty_fresh_draws():
    chance = torch.Generator().manual_seed(0)
    draw = lambda: (torch.rand(1000, 10, generator=chance) < 0.97).float().mean(1)  # noqa: E731
    fresh = torch.stack([draw().mean() for _ in range(400)])
    shares = torch.stack([(fresh >= lower_bound(draw())).float().mean() for _ in range(400)])
    assert 0.9 < float((shares >= 0.95).float().mean()) < 0.99  # unless the measured queries are luckier than that


def test_without_a_kind_that_is_enough_the_nearest_is_named(vectors):
    found = choose_codes(vectors.numpy(), target=Target(1.0, ROWS), kinds=("flat", "int8"), queries=100)
    assert not found.met
    assert found.best.kind == "int8"
    small, large = (
        Measured(kind, 1, 10, size, 0.0, recall, recall, 1.0) for kind, size, recall in (("a", 1, 0.5), ("b", 2, 0.9))
    )
    assert nearest([small, large], Target(0.95, 20), 10) == large
    assert nearest([small, large], Target(0.95, 10), 10) == small


def test_refusals_say_what_to_do(vectors, tmp_path):
    for call, words in {
        lambda: build_index(vectors, kind="hnws"): "did you mean 'hnsw'",
        lambda: build_index(vectors[:100], kind="ivf-pq"): "use kind='flat'",
        lambda: build_index(vectors, ["a"] * ROWS): "a unique id",
        lambda: build_index(vectors).search(torch.ones(1, 3), 1): r"\(Q, 32\)",
        lambda: choose_codes(vectors[:9].numpy(), target=Target(0.9)): "100 vectors or more",
        lambda: choose_codes(vectors.numpy(), target=Target(1.5)): "at most 1",
        lambda: choose_codes(vectors.numpy(), target=Target(0.9), kinds=("hnws",)): "did you mean 'hnsw'",
    }.items():
        with pytest.raises(UserError, match=words):
            call()
    with pytest.raises(DataError, match="no index at"):
        load_index(tmp_path / "none")
    assert tuple(sorted(LADDER)) == LADDER  # choose_codes stops at the first effort that is enough


def test_without_faiss_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"\.\[search\]"):
        build_index(torch.eye(3), kind="int8")
