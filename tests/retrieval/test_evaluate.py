"""Evaluation equals an independent oracle on sets made to break it; the rules of the docstring hold."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from similis.retrieval.evaluate import evaluate
from similis.retrieval.similarity import as_gallery, similarities
from similis.values import Embedded, UserError
from tests.retrieval.plain_evaluation import cosine, dot, plain_evaluation

KS = (1, 2, 4, 8, 100)


def signs(count, dim, seed, dtype=torch.float64):
    """Vectors of +-1: with 4, 16, 64 dimensions every cosine is exact, and many are equal."""
    return torch.randint(0, 2, (count, dim), generator=torch.Generator().manual_seed(seed)).to(dtype) * 2 - 1


def gauss(count, dim, seed):
    return torch.randn(count, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def some(count, low, high, seed):
    return torch.randint(low, high, (count,), generator=torch.Generator().manual_seed(seed))


def copies_across_classes():
    """Thirty images, each five times, under classes that have nothing to do with them."""
    x = gauss(30, 7, 1).repeat(5, 1)
    return x, some(150, 0, 12, 2)


def with_zeros():
    x = gauss(40, 5, 3)
    x[::4] = 0.0
    return x, some(40, 0, 6, 4)


SETS = {
    "random": (gauss(60, 6, 0), some(60, 0, 9, 0)),
    "copies": copies_across_classes(),
    "copies in float32": (copies_across_classes()[0].float(), copies_across_classes()[1]),
    "ties": (signs(120, 4, 5), some(120, 0, 15, 6)),
    "ties in float32": (signs(120, 16, 7, torch.float32), some(120, 0, 30, 8)),
    "collapsed": (torch.ones(50, 4, dtype=torch.float64), some(50, 0, 7, 9)),
    "zeros": with_zeros(),
    "singletons only": (gauss(9, 3, 10), torch.arange(9)),
    "half singletons": (gauss(40, 3, 11), torch.cat([torch.arange(20) + 100, some(20, 0, 3, 12)])),
    "one class": (gauss(12, 3, 13), torch.zeros(12, dtype=torch.long)),
    "pair": (gauss(2, 3, 14), torch.zeros(2, dtype=torch.long)),
    "alone": (gauss(1, 3, 15), torch.zeros(1, dtype=torch.long)),
    "huge labels": (gauss(30, 3, 16), 2**53 + some(30, 0, 4, 17)),
}


def assert_equal_to_oracle(found, expected, ks, abs=1e-12):
    values, orders = expected
    names = [f"{kind}@{k}" for kind in ("recall", "precision") for k in ks] + ["r_precision", "map@r", "mrr"]
    assert set(found.per_query) == set(found.means) == set(names)
    for name in names:
        want = [math.nan if one is None else one[name] for one in values]
        assert found.per_query[name].tolist() == pytest.approx(want, abs=abs, nan_ok=True), name
        counted = [one for one in want if not math.isnan(one)]
        mean = sum(counted) / len(counted) if counted else math.nan
        assert found.means[name] == pytest.approx(mean, abs=abs, nan_ok=True), name
    assert found.excluded == sum(one is None for one in values)
    assert found.matches.tolist() == [sum(match for _, match, _ in order) for order in orders]


def assert_neighbours(found, orders, labels, queries):
    """Right and wrong answers and similarities in the oracle's order; rows free among equals only."""
    width = found.neighbors.index.shape[1]
    for q, order, index, similarity in zip(
        queries, orders, found.neighbors.index.tolist(), found.neighbors.similarity.tolist(), strict=True
    ):
        filled = min(width, len(order))
        assert index[filled:] == [-1] * (width - filled)
        assert similarity[filled:] == [-math.inf] * (width - filled)
        assert [labels[g] == labels[q] for g in index[:filled]] == [match for _, match, _ in order[:filled]]
        assert similarity[:filled] == pytest.approx([-s for s, _, _ in order[:filled]], abs=1e-6)
        assert len(set(index[:filled])) == filled


@pytest.mark.parametrize("tile", [pytest.param(1, marks=pytest.mark.slow), 1000, 2**24])
@pytest.mark.parametrize("name", SETS)
def test_equals_plain_loops(name, tile):
    x, labels = SETS[name]
    ids = torch.randperm(len(x), generator=torch.Generator().manual_seed(1)) + 2**40
    expected = plain_evaluation(x.tolist(), labels.tolist(), ids.tolist(), ks=KS)
    found = evaluate(Embedded(x, labels, ids), ks=KS, tile=tile)
    assert_equal_to_oracle(found, expected, KS)
    assert_neighbours(found, expected[1], labels.tolist(), range(len(x)))


@pytest.mark.parametrize("name", ["random", "copies", "ties", "half singletons"])
@pytest.mark.parametrize("disjoint", [True, False])
@pytest.mark.parametrize("grouped", [True, False])
def test_queries_gallery_and_groups(name, disjoint, grouped):
    x, labels = SETS[name]
    rows = torch.arange(len(x))
    queries, gallery = (rows % 3 == 0, rows % 3 != 0) if disjoint else (rows % 2 == 0, rows % 5 != 0)
    groups = some(len(x), -1, 6, 20) if grouped else None
    found = evaluate(Embedded(x, labels, rows), ks=KS, queries=queries, gallery=gallery, groups=groups, tile=500)
    asked, answered = rows[queries].tolist(), rows[gallery].tolist()
    expected = plain_evaluation(
        x.tolist(), labels.tolist(), rows.tolist(), ks=KS, queries=asked, gallery=answered,
        groups=None if groups is None else groups.tolist(),
    )  # fmt: skip
    assert found.queries.tolist() == asked
    assert_equal_to_oracle(found, expected, KS)
    assert_neighbours(found, expected[1], labels.tolist(), asked)
    by_number = evaluate(
        Embedded(x, labels, rows), ks=KS, queries=rows[queries], gallery=rows[gallery], groups=groups, tile=500
    )
    assert torch.equal(by_number.neighbors.index, found.neighbors.index)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_equals_plain_loops_on_any_small_set(data):
    count = data.draw(st.integers(1, 14))
    numbers = st.lists(st.integers(-2, 3), min_size=count, max_size=count)
    x = [data.draw(st.lists(st.integers(-1, 1), min_size=3, max_size=3)) for _ in range(count)]
    labels, ids = data.draw(numbers), data.draw(st.one_of(numbers, st.just(list(range(count)))))
    groups = data.draw(st.one_of(st.none(), numbers))
    rows = st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True)
    queries, gallery = data.draw(st.one_of(st.none(), rows)), data.draw(st.one_of(st.none(), rows))
    as_tensor = lambda part: None if part is None else torch.tensor(part)  # noqa: E731
    found = evaluate(
        Embedded(torch.tensor(x, dtype=torch.float32), torch.tensor(labels), torch.tensor(ids)),
        ks=(1, 3, 20), queries=as_tensor(queries), gallery=as_tensor(gallery), groups=as_tensor(groups),
        similarity="dot", tile=data.draw(st.integers(1, 60)),
    )  # fmt: skip
    expected = plain_evaluation(
        x, labels, ids, ks=(1, 3, 20), queries=queries, gallery=gallery, groups=groups, likeness=dot
    )
    assert_equal_to_oracle(found, expected, (1, 3, 20))
    assert_neighbours(found, expected[1], labels, queries or range(count))


@pytest.mark.parametrize("kind", ["ties", pytest.param("distinct", marks=pytest.mark.slow)])
def test_r_from_one_to_five_thousand(kind):
    sizes = [1, 1, 2, 3, 5, 9, 17, 40, 90, 200, 500, 5001]
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)) * 10**12, sizes))
    if kind == "ties":
        x = signs(len(labels), 16, 1)
    else:
        x = gauss(len(labels), 16, 1) + 0.3 * gauss(len(sizes), 16, 2)[torch.from_numpy(labels // 10**12)]
    rows, ks = torch.arange(len(labels)), (1, 10, 1000)
    queries = sorted(row for label in set(labels) for row in np.flatnonzero(labels == label)[:5].tolist())
    embedded = Embedded(x, torch.from_numpy(labels), rows)
    found = evaluate(embedded, ks=ks, queries=torch.tensor(queries), tile=2**17)
    assert found.matches.max() == 5000
    assert found.matches[found.matches > 0].min() == 1
    assert found.excluded == 2
    expected = plain_evaluation(x.tolist(), labels.tolist(), rows.tolist(), ks=ks, queries=queries)
    assert_equal_to_oracle(found, expected, ks)


def test_copies_are_equal_wherever_they_stand_in_a_matrix_product():
    x = torch.nn.functional.normalize(torch.randn(37, 129, generator=torch.Generator().manual_seed(0)), dim=1)
    order = some(1003, 0, 37, 1)
    gallery = as_gallery(x[order])
    first = [order.tolist().index(one) for one in order.tolist()]
    assert dict(zip(gallery.repeats.tolist(), gallery.originals.tolist(), strict=True)) == {
        row: original for row, original in enumerate(first) if row != original
    }
    for query in x:  # a product with one row is where rounding depends on the place
        row = similarities(query[None], gallery)[0]
        assert torch.equal(row, row[torch.tensor(first)])


def test_a_collapsed_model_scores_nothing_in_any_order():
    labels = some(200, 0, 20, 0)
    embedded = Embedded(torch.ones(200, 8), labels, torch.arange(200))
    found = evaluate(embedded)
    assert found.means["recall@8"] == 0.0
    assert found.means["map@r"] == 0.0


def test_clustering_is_seeded_and_finds_clear_classes():
    centres = 10 * gauss(6, 12, 0)
    labels = torch.arange(6).repeat_interleave(15)
    embedded = Embedded(centres[labels] + 0.01 * gauss(90, 12, 1), labels, torch.arange(90))
    scores = [evaluate(embedded, clustering=True, seed=seed).whole for seed in (0, 0, 1, 2, 3, 4)]
    assert scores[0] == scores[1]
    assert max(one["nmi"] for one in scores) == pytest.approx(1.0)
    assert max(one["ami"] for one in scores) == pytest.approx(1.0)
    assert max(one["pair_f1"] for one in scores) == pytest.approx(1.0)


def test_clusters_that_mix_classes_have_the_figures_of_their_table():
    """Clusters of three and one, classes of two and two: one of three pairs in a cluster is of one class."""
    x = torch.tensor([[1.0, 0.0], [1.0, 0.01], [1.0, -0.01], [0.0, 1.0]])
    found = evaluate(x, [0, 0, 1, 1], ks=(1,), clustering=True, seed=2**40 - 1).whole
    mutual = 0.5 * math.log(4 / 3) + 0.25 * math.log(2 / 3) + 0.25 * math.log(2)
    entropies = math.log(2), 2 * math.log(2) - 0.75 * math.log(3)
    assert found == {"nmi": pytest.approx(2 * mutual / sum(entropies)), "ami": pytest.approx(0.0), "pair_f1": 0.4}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": torch.zeros(4)}, "integers"),
        ({"labels": torch.zeros(3, dtype=torch.long)}, "lengths"),
        ({"vectors": torch.full((4, 2), math.nan)}, "not finite"),
        ({"vectors": torch.zeros(4, 2, dtype=torch.long)}, "floats"),
        ({"ks": (0,)}, "give numbers from 1"),
        ({"queries": torch.zeros(4, dtype=torch.bool)}, "choose some"),
        ({"gallery": torch.tensor([4])}, "from 0 to 3"),
        ({"gallery": torch.tensor([0.5])}, "mask"),
        ({"similarity": "cosin"}, "did you mean 'cosine'"),
        ({"tile": 0}, "1 or more"),
        ({"groups": torch.zeros(2, dtype=torch.long)}, "lengths"),
        ({"relevance": torch.zeros(2, 3)}, "relevance has shape"),
        ({"relevance": -torch.ones(4, 4)}, "0 or more"),
        ({"gallery": (torch.zeros(3, 5), [0, 1, 2])}, "must fit each other"),
        ({"labels": torch.arange(4)[:, None]}, "give one label a row"),
        ({"labels": torch.ones(4, 2).long(), "clustering": True}, "clusters are compared with classes"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_with_a_reason(change, words):
    given = {"vectors": torch.ones(4, 2), "labels": torch.zeros(4, dtype=torch.long), "ids": torch.arange(4)} | change
    with pytest.raises(UserError, match=words):
        evaluate(Embedded(given.pop("vectors"), given.pop("labels"), given.pop("ids")), **given)


MEMORY = """
import resource, torch
from similis.retrieval.evaluate import evaluate
from similis.values import Embedded
torch.set_num_threads(1)
def run(count):
    labels = torch.arange(count) // 5
    evaluate(Embedded(torch.randn(count, 16), labels, torch.arange(count)), tile=2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
run(500)
print(-run(2000) + run(12000))
"""


@pytest.mark.slow
def test_memory_is_that_of_a_tile_not_of_all_pairs():
    more = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert float(more.stdout) < 60  # MB; all pairs of 12,000 would be 549


def test_the_oracle_itself_on_a_case_done_by_hand():
    values, orders = plain_evaluation(
        [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], [0, 1, 0, 1], [0, 1, 2, 3], ks=(1,), likeness=cosine
    )
    assert [row for _, _, row in orders[0]] == [3, 2, 1]
    assert values[0] == {"recall@1": 0.0, "precision@1": 0.0, "r_precision": 0.0, "map@r": 0.0, "mrr": 0.5}
