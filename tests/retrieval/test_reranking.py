"""Re-ranking against the papers' formulas in plain loops, over tiles, with queries in the gallery and beside it."""

import math

import pytest
import torch

import similis
from similis.retrieval.reranking import RERANKERS, expand_queries, k_reciprocal
from similis.retrieval.similarity import as_gallery
from similis.sphere import unit
from similis.values import Embedded, UserError


def clustered(
    count: int, dim: int = 6, classes: int = 5, noise: float = 0.6, seed: int = 0
) -> tuple[torch.Tensor, ...]:
    chance = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    centres = torch.randn(classes, dim, generator=chance, dtype=torch.float64)
    return unit(centres[labels] + noise * torch.randn(count, dim, generator=chance, dtype=torch.float64)), labels


def plain_k_reciprocal(x: list[list[float]], k1: int, k2: int, original: float) -> list[list[float]]:
    """Final distances of all rows, after Zhong et al. 2017, equations 1 to 12, and the authors' published code."""
    n = len(x)
    d = [[max(0.0, 1 - sum(a * b for a, b in zip(p, g, strict=True))) for g in x] for p in x]
    d = [[value / max(row) for value in row] for row in d]
    ranked = [[i, *sorted((j for j in range(n) if j != i), key=lambda j, i=i: d[i][j])] for i in range(n)]

    def mutual(p: int, k: int) -> set[int]:
        return {g for g in ranked[p][: k + 1] if p in ranked[g][: k + 1]}

    v = [[0.0] * n for _ in range(n)]
    for p in range(n):
        near = mutual(p, k1)
        wide = set(near)
        for q in near:
            half = mutual(q, round(k1 / 2))
            if len(near & half) > 2 / 3 * len(half):
                wide |= half
        total = sum(math.exp(-d[p][g]) for g in wide)
        for g in wide:
            v[p][g] = math.exp(-d[p][g]) / total
    v = [[sum(v[q][g] for q in ranked[p][:k2]) / k2 for g in range(n)] for p in range(n)]
    final = []
    for p in range(n):
        least = [sum(min(a, b) for a, b in zip(v[p], v[g], strict=True)) for g in range(n)]
        most = [sum(max(a, b) for a, b in zip(v[p], v[g], strict=True)) for g in range(n)]
        final.append([(1 - original) * (1 - least[g] / most[g]) + original * d[p][g] for g in range(n)])
    return final


@pytest.mark.parametrize(("k1", "k2", "original"), [(20, 6, 0.3), (7, 3, 0.0), (5, 1, 0.6)])
def test_k_reciprocal_equals_the_plain_loops(k1, k2, original):
    x, _ = clustered(60)
    expected = torch.tensor(plain_k_reciprocal(x.tolist(), k1, k2, original), dtype=torch.float64)
    ids = torch.arange(60)
    within = k_reciprocal(x, as_gallery(x), (ids, ids), k1=k1, k2=k2, original=original)
    assert torch.allclose(1 - within(ids), expected, atol=1e-12)
    rows = torch.tensor([31, 4])
    assert torch.allclose(within(rows), within(ids)[rows], atol=1e-14)  # tiles do not matter
    beside = k_reciprocal(x[:15], as_gallery(x[15:]), (ids[:15], ids[15:]), k1=k1, k2=k2, original=original)
    assert torch.allclose(1 - beside(torch.arange(15)), expected[:15, 15:], atol=1e-12)


def test_query_expansion_equals_the_plain_loops():
    x, _ = clustered(40)
    ids = torch.arange(40)
    found = expand_queries(x, as_gallery(x), (ids, ids), (ids // 2, ids // 2), neighbors=4)
    for q in range(40):
        others = [g for g in range(40) if g // 2 != q // 2]
        near = sorted(others, key=lambda g, q=q: -float(x[q] @ x[g]))[:4]
        total = x[q] + sum(max(0.0, float(x[q] @ x[g])) ** 3 * x[g] for g in near)
        assert torch.allclose(found[q], total / total.norm(), atol=1e-12)


def test_a_gallery_smaller_than_the_lists():
    x = unit(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]))
    ids = torch.arange(3)
    assert expand_queries(x[:1], as_gallery(x[1:2]), (ids[:1], ids[1:2]), None).shape == (1, 2)
    assert k_reciprocal(x, as_gallery(x), (ids, ids))(ids).argsort(dim=1, descending=True)[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("rerank", RERANKERS)
def test_evaluation_with_a_second_look(rerank):
    x, labels = clustered(120, dim=8, classes=10, noise=0.9, seed=1)
    plain, again = (similis.evaluate(x, labels, rerank=name) for name in ("", rerank))
    assert again.means["map@r"] > plain.means["map@r"] + 0.02
    small = similis.evaluate(x, labels, rerank=rerank, tile=1)
    assert all(torch.equal(small.per_query[name], again.per_query[name]) for name in again.per_query)
    assert not (again.neighbors.index == torch.arange(120)[:, None]).any()


def test_refusals_say_what_to_do():
    x, labels = clustered(20)
    with pytest.raises(UserError, match="did you mean 'k-reciprocal'"):
        similis.evaluate(Embedded(x, labels, torch.arange(20)), rerank="k-reciprocl")
    with pytest.raises(UserError, match="defined for 'cosine'"):
        similis.evaluate(x, labels, rerank="alpha-qe", similarity="dot")
