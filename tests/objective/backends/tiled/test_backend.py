"""The back-end in tiles: the answers of the dense one."""

import torch

from similis.objective.backends.tiled.backend import Tiled
from similis.objective.comparison.compare import compare
from similis.objective.context import dense, tiles
from similis.objective.references import Block, batch_references
from similis.objective.terms.reductions import lse, total
from similis.objective.terms.tile import Ask
from tests.batches import random_batch


def both(make):
    """What ``make(x)`` asks of a comparison with a memory, dense and in tiles, with its gradient."""
    out = []
    for context in (dense(), tiles(3, 4)):
        x, labels = random_batch(0)
        old, old_labels = random_batch(1)
        memory = Block(old, old_labels, own=torch.arange(11), ids=torch.arange(11) + 4)
        x.requires_grad_()
        with context:
            p = compare(x, labels, batch_references(x, labels, memory), sphere=True)
            found = make(p)
        gradient = torch.autograd.grad(found.pow(2).sum(), x)[0] if found.requires_grad else torch.zeros(())
        out.append((found.detach(), gradient))
    (want, slope), (got, mine) = out
    assert torch.allclose(got, want, atol=1e-12)
    assert torch.allclose(mine, slope, atol=1e-12)


INDEX = torch.tensor([0, 21, 10, 11, 5, 5, 3, 12, 13, 1, 20])


def test_vectors_are_read_by_their_own_numbers():
    both(lambda p: p.rows)
    both(lambda p: torch.cat(p.columns()))
    both(lambda p: p.take(INDEX))
    both(lambda p: p.at(INDEX).s)
    both(lambda p: p.at(INDEX.view(1, 11).expand(11, 11)).d2)
    both(lambda p: p.at(INDEX, anchors=INDEX % 11).d)
    both(lambda p: p.own(lambda v: v.pow(3).sum(-1)))


def test_sets_and_values_of_rows_and_columns():
    both(lambda p: p.neg(lambda t: total(t.s)))
    both(lambda p: p.pos(lambda t: total(t.d)))
    both(lambda p: p.others(lambda t, a: total(a * t.s), rows=(p.at(INDEX).s,)))
    both(lambda p: p.every(lambda t, a: total((t.s[..., None] * a).sin()), rows=(p.at(INDEX.expand(11, 11)).s,)))
    both(lambda p: p.neg(lambda t, a: total(t.s * a), dots=(p.take(INDEX),)))


def test_a_batch_against_itself_is_one_store():
    x, labels = random_batch(0)
    with tiles(3, 4):
        p = compare(x, labels, sphere=True)
        q = compare(x, (labels[:, None] == labels).long(), sphere=True)
    assert p.backend.row is p.backend.sides[0]
    assert q.backend.row is q.backend.sides[0]
    assert p.backend.row.labels.tolist() == sorted(labels.tolist())


def test_a_dense_comparison_in_tiles():
    """Where a device has no room for a matrix, the same vectors are read in tiles."""
    x, labels = random_batch(0)
    x.requires_grad_()
    p = compare(x, labels, sphere=True)
    q = p.backend._tiled()
    assert isinstance(q, Tiled)
    assert p.backend._tiled() is q
    a, b = (c.reduce(Ask("neg", lambda t: total(t.s.square())), 0, 0)[1][0].sum() for c in (p.backend, q))
    assert torch.allclose(a, b, atol=1e-12)
    assert torch.allclose(*(torch.autograd.grad(v, x, retain_graph=True)[0] for v in (a, b)), atol=1e-12)


def mirrored_halves(fn, labels, calls):
    """A reduction over the negatives of a batch in tiles of 4 x 4; ``calls`` gathers the shapes that ``fn`` saw."""

    def watched(t, *values):
        calls.append(tuple(t.s.shape))
        return fn(t, *values)

    x, _ = random_batch(0)
    x.requires_grad_()
    out = []
    for context in (tiles(4, 4), dense()):
        with context:
            found = compare(x, labels, sphere=False).neg(watched)
        out.append([found.detach(), *torch.autograd.grad(found.pow(2).sum(), x)])
    for got, want in zip(*out, strict=True):
        assert torch.allclose(got, want, atol=1e-11)


def test_a_function_of_likeness_alone_is_called_once_for_both_images():
    _, labels = random_batch(0)
    alike, different = [], []
    mirrored_halves(lambda t: lse(1 - t.d), labels, alike)
    mirrored_halves(lambda t: lse(t.s + 0.1 * t.columns.to(t.s.dtype)), labels, different)
    assert len(different) > len(alike) + 2


def test_a_relation_that_is_not_symmetric_keeps_its_sides():
    """Who is a negative of whom may differ between the images; so may the grades that a function reads."""
    generator = torch.Generator().manual_seed(5)
    relation = torch.randint(-1, 2, (11, 11), generator=generator).double()
    assert not torch.equal(relation, relation.T)
    mirrored_halves(lambda t: lse(t.s), relation, [])
    mirrored_halves(lambda t: total(t.d * (t.grade + 2)), relation, [])
    mirrored_halves(lambda t: (lse(t.d2, t.s > 0))._replace(kind="total"), relation, [])
