"""The dense back-end: small and large matrices give the numbers of the plain reductions, however a set is held."""

from dataclasses import replace

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from similis.objective.backends import dense, listed_positives
from similis.objective.backends.dense import Gram, make_dense
from similis.objective.backends.protocol import Operands
from similis.objective.references import batch_references
from similis.objective.terms import reductions
from similis.objective.terms.reductions import Top, count, evaluate, lse, restrict, top, total
from similis.objective.terms.tile import Ask
from tests.batches import random_batch

X, LABELS = random_batch(0)


def both(which, make, monkeypatch, *, direct, lists):
    """What ``make`` of similarities gives by the back-end and by the plain reduction, with the vectors."""
    for module in (dense, reductions):
        monkeypatch.setattr(module, "DIRECT", 2**14 if direct else 0)
    monkeypatch.setattr(listed_positives, "LEAST", 0 if lists else 2**30)
    monkeypatch.setattr(listed_positives, "SHARE", 1.0)
    x = X.clone().requires_grad_()
    references = batch_references(x, LABELS)
    backend = make_dense(Operands(x, LABELS, references, True, True))
    (kind,), (found,) = backend.reduce(Ask(which, lambda t: make(t.s)), 0, 4)
    mask = references.blocks[0].members(which, LABELS)
    rows = torch.nn.functional.normalize(x)
    want = evaluate(restrict(make(rows @ rows.T), mask), 4)
    assert kind == make(rows).kind
    return x, found, want


@pytest.mark.parametrize(("direct", "lists"), [(True, False), (False, False), (False, True)])
@pytest.mark.parametrize("which", ["pos", "neg", "others", "every"])
@pytest.mark.parametrize(
    "make",
    [
        lse,
        total,
        top,
        lambda v: top(v, k=2),
        lambda v: count(v > 0),
        lambda v: total(v, v > 0),
        lambda v: lse(torch.stack([v, 2 * v], 2)),
    ],
)
def test_as_the_plain_reduction(which, make, direct, lists, monkeypatch):
    x, found, want = both(which, make, monkeypatch, direct=direct, lists=lists)
    if isinstance(want, Top):
        assert torch.allclose(found.values, want.values, rtol=1e-14)
        assert torch.equal(found.index, want.index)
        return
    assert torch.allclose(found, want, rtol=1e-13)
    if found.requires_grad:
        gradients = [
            torch.autograd.grad(rows[rows.isfinite()].sum(), x, retain_graph=True)[0] for rows in (found, want)
        ]
        assert torch.allclose(*gradients, rtol=1e-12, atol=1e-14)


def test_a_function_asked_of_two_sets_is_one_matrix():
    backend = make_dense(Operands(X, LABELS, batch_references(X, LABELS), True, True))
    seen = []

    def fn(t):
        seen.append(t)
        return lse(t.s)

    for which in ("pos", "neg"):
        backend.reduce(Ask(which, fn), 0, 0)
    assert len(seen) == 1


def test_a_row_without_its_class_among_the_columns(monkeypatch):
    monkeypatch.setattr(listed_positives, "LEAST", 0)
    rows = torch.cat([LABELS[:-1], torch.tensor([99])])
    references = batch_references(X, LABELS)
    (block,) = references.blocks
    strange = replace(references, blocks=(replace(block, own=None, ids=None),))
    backend = make_dense(Operands(X, rows, strange, False, False))
    (_,), (found,) = backend.reduce(Ask("neg", lambda t: total(t.s)), 0, 0)
    assert torch.allclose(found[-1], (X[-1] @ X.T).sum())


def test_products_of_rows_with_themselves():
    rows = X[:4].clone().requires_grad_()
    assert torch.equal(Gram.apply(rows), rows @ rows.T)
    assert gradcheck(Gram.apply, rows)
    assert gradgradcheck(Gram.apply, rows)
