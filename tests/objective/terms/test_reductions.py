"""Reductions of rows against plain loops: empty sets, ties, trailing axes, tiles joined."""

import math

import pytest
import torch

from similis.objective.terms.reductions import count, evaluate, lse, merge, restrict, safe_lse, softplus, top, total

INF = float("inf")


def tile(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def values():
    return tile(4, 6)


@pytest.fixture
def where():
    rows = [[1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]]
    return torch.tensor(rows, dtype=torch.bool)


def chosen(values, where, row):
    return [float(values[row, j]) for j in range(values.shape[1]) if where[row, j]]


def test_lse_is_the_logarithm_of_the_sum(values, where):
    got = evaluate(lse(values, where))
    for row in range(4):
        picked = chosen(values, where, row)
        want = math.log(sum(math.exp(v) for v in picked)) if picked else -INF
        assert float(got[row]) == pytest.approx(want, abs=1e-14)


def test_total_is_the_sum(values, where):
    got = evaluate(total(values, where))
    assert got.tolist() == pytest.approx([sum(chosen(values, where, row)) for row in range(4)], abs=1e-14)
    assert got[2] == 0.0


def test_count_is_an_exact_integer(values, where):
    got = evaluate(restrict(count(values > -INF), where))
    assert got.dtype == torch.int64
    assert got.tolist() == [len(chosen(values, where, row)) for row in range(4)]


@pytest.mark.parametrize("k", [1, 3, 8])
def test_top_is_the_largest_with_their_columns(values, where, k):
    got = evaluate(top(values, where, k))
    for row in range(4):
        picked = sorted((-float(values[row, j]), j) for j in range(6) if where[row, j])[:k]
        short = k - len(picked)
        assert got.values[row].tolist() == [-v for v, _ in picked] + [-INF] * short
        assert got.index[row].tolist() == [j for _, j in picked] + [-1] * short


def test_ties_go_to_the_lowest_column():
    got = evaluate(top(torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0]]), None, 3), first=10)
    assert got.index.tolist() == [[11, 12, 14]]


def test_top_has_no_gradient(values):
    assert not evaluate(top(values.requires_grad_())).values.requires_grad


def test_a_trailing_axis_is_kept_by_sums(where):
    values = tile(4, 6, 3)
    for kind in (lse, total):
        got = evaluate(kind(values, where))
        for m in range(3):
            assert torch.allclose(got[:, m], evaluate(kind(values[..., m], where)), atol=1e-14)


def test_top_runs_over_all_vectors_of_all_columns(where):
    values = tile(4, 6, 3)
    got = evaluate(top(values, where, 2), first=5)
    flat = evaluate(top(values.flatten(1), where.repeat_interleave(3, 1), 2))
    assert torch.equal(got.values, flat.values)
    assert got.index.tolist() == torch.where(flat.index < 0, -1, flat.index + 15).tolist()


def test_a_mask_of_the_term_and_a_mask_of_the_set_are_joined(values, where):
    both = evaluate(restrict(total(values, values > 0), where))
    assert both.tolist() == evaluate(total(values, where & (values > 0))).tolist()
    stack = tile(4, 6, 2)
    both = evaluate(restrict(total(stack, stack > 0), where))
    assert torch.equal(both, evaluate(total(stack, where[..., None] & (stack > 0))))


@pytest.mark.parametrize("kind", ["lse", "total", "top"])
@pytest.mark.parametrize("cut", [1, 3, 5])
def test_tiles_joined_are_the_whole(values, where, kind, cut):
    values[1, 0] = values[1, 5] = values[1].max() + 1  # a tie across tiles
    where[1, [0, 5]] = True
    make = {"lse": lse, "total": total, "top": lambda v, w: top(v, w, 2)}[kind]
    whole = evaluate(make(values, where))
    parts = [evaluate(make(values[:, s], where[:, s]), s.start) for s in (slice(0, cut), slice(cut, 6))]
    joined = merge(kind, *parts)
    if kind == "top":
        assert torch.equal(joined.values, whole.values)
        assert torch.equal(joined.index, whole.index)
    else:
        assert torch.allclose(joined, whole, atol=1e-14)
        assert torch.equal(joined.isinf(), whole.isinf())


def test_a_top_is_merged_with_a_top_only(values):
    with pytest.raises(TypeError, match="top"):
        merge("top", evaluate(top(values)), evaluate(lse(values)))


def test_large_exponents_do_not_overflow():
    values = torch.tensor([[1000.0, 999.0], [-1000.0, -1001.0]], dtype=torch.float64, requires_grad=True)
    got = evaluate(lse(values))
    got.sum().backward()
    assert got.tolist() == pytest.approx([1000 + math.log1p(math.exp(-1)), -1000 + math.log1p(math.exp(-1))])
    assert values.grad.sum(1).tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("x", [-INF, -50.0, -1.0, 0.0, 19.9, 20.1, 25.0, 39.9, 45.0])
def test_softplus_is_exact_to_the_last_digit(x):
    want = max(x, 0.0) + math.log1p(math.exp(-abs(x)))
    assert float(softplus(torch.tensor(x, dtype=torch.float64))) == pytest.approx(want, rel=1e-15, abs=1e-300)


def test_an_unmasked_row_of_minus_infinity_has_no_gradient():
    """Tiles with empty sets are joined without a mask that could hide a NaN."""
    values = torch.tensor([[-INF, -INF], [-INF, 0.5]], dtype=torch.float64, requires_grad=True)
    got = safe_lse(values)
    softplus(got).sum().backward()
    assert got.tolist() == [-INF, 0.5]
    assert values.grad[0].tolist() == [0.0, 0.0]
    assert values.grad[1].tolist() == pytest.approx([0.0, 1 / (1 + math.exp(-0.5))])
