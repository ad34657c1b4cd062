"""Dense reductions in few passes: the numbers of the plain ones, however the set is held."""

from dataclasses import replace

import pytest
import torch

from similis.objective.backends import dense
from similis.objective.backends.dense import Columns, reduce_term
from similis.objective.terms.reductions import Top, count, evaluate, lse, restrict, top, total
from similis.objective.terms.references import batch_references

LABELS = torch.tensor([3, 1, 3, 2, 1, 3, 9, 2])


def made(which, seed=0):
    """Values, the block and its set, held in full and as a list."""
    values = torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    block = batch_references(values.detach(), LABELS).blocks[0]
    return values, block, block.members(which, LABELS)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("which", ["pos", "neg", "others", "every"])
@pytest.mark.parametrize(
    "make", [lse, total, top, lambda v: top(v, k=2), lambda v: count(v > 0), lambda v: total(v, v > 0)]
)
def test_as_the_plain_reduction(which, make, listed, monkeypatch):
    monkeypatch.setattr(dense, "ENTRIES", 0 if listed else 2**15)
    monkeypatch.setattr(dense, "SHARE", 0.5)
    values, block, mask = made(which)
    columns = Columns(block, which, LABELS, values)
    assert (columns.listed is not None) == (listed and which == "pos")
    assert (columns.outside is not None) == (listed and which == "neg")
    found, want = reduce_term(make(values), columns, 4), evaluate(restrict(make(values), mask), 4)
    if isinstance(want, Top):
        assert torch.equal(found.values, want.values)
        assert torch.equal(found.index, want.index)
        return
    assert torch.allclose(found, want, rtol=1e-14)
    if found.requires_grad:
        slopes = [
            torch.autograd.grad(rows[rows.isfinite()].sum(), values, retain_graph=True)[0] for rows in (found, want)
        ]
        assert torch.allclose(*slopes, rtol=1e-13)


@pytest.mark.parametrize("which", ["pos", "neg", "every"])
@pytest.mark.parametrize("listed", [False, True])
def test_stacks_of_vectors(which, listed, monkeypatch):
    monkeypatch.setattr(dense, "ENTRIES", 0 if listed else 2**15)
    monkeypatch.setattr(dense, "SHARE", 0.5)
    values, block, mask = made(which)
    deep = torch.stack([values, 2 * values], 2)
    for make in (lse, total):
        want = evaluate(restrict(make(deep), mask))
        assert torch.allclose(reduce_term(make(deep), Columns(block, which, LABELS, values), 0), want, rtol=1e-14)


def test_a_row_without_its_class_among_the_columns_is_no_list(monkeypatch):
    monkeypatch.setattr(dense, "ENTRIES", 0)
    values, block, _ = made("neg")
    rows = torch.tensor([3, 1, 3, 2, 1, 3, 9, 4])
    columns = Columns(replace(block, own=None, ids=None), "neg", rows, values)
    assert columns.outside is None
    assert torch.allclose(reduce_term(total(values), columns, 0)[-1], values[-1].sum())
