"""The plan: its tiles meet every pair of a set once, and none twice."""

import pytest
import torch

from similis.objective.backends.protocol import Operands
from similis.objective.backends.tiled.backend import make_tiled
from similis.objective.comparison.compare import compare_classes_to
from similis.objective.context import Tiling, tiles
from similis.objective.references import Block, References, batch_references
from similis.objective.terms.reductions import total
from similis.objective.terms.tile import Ask
from tests.batches import random_batch


def in_tiles(rows, labels, references, tiling):
    return make_tiled(Operands(rows, labels, references, True, True), tiling)


def batch_plan(which, tiling, seed=0, memory=False, relation=None, dots=()):
    """A plan over the batch, or over a memory that holds images of the batch under other labels."""
    x, labels = random_batch(seed)
    old, old_labels = random_batch(seed + 1)
    ids = torch.arange(11)
    rows = Block(old, old_labels, own=ids, ids=ids.flip(0)) if memory else None
    references = batch_references(x, labels if relation is None else relation, rows)
    operands = Operands(x, None if relation is not None else labels, references, True, True)
    p = make_tiled(operands, tiling)
    return p.plan(Ask(which, lambda t: total(t.s), dots=dots), 1 if memory else 0), operands


def met(plan):
    """How often the tiles of a plan meet each pair, in the order of rows and columns."""
    rows, columns = len(plan.rows), len(plan.columns)
    times = torch.zeros(rows, columns, dtype=torch.int64)
    for span in plan.spans():
        for view, _ in span.views(torch.zeros(span.last - span.first, span.right - span.left)):
            mask = plan.mask(view)
            part = times[view.first : view.last, view.left : view.right]
            part += torch.ones_like(part) if mask is None else mask.long()
    order = plan.rows.places if plan.rows.places is not None else torch.arange(rows)
    across = plan.columns.places if plan.columns.places is not None else torch.arange(columns)
    return times[order][:, across]


@pytest.mark.parametrize("tiling", [Tiling(1, 1), Tiling(3, 4), Tiling(5, 2), Tiling(100, 100)], ids=str)
@pytest.mark.parametrize("which", ["pos", "neg", "others", "every"])
@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("dots", [False, True])
def test_every_pair_of_the_set_is_met_once(which, tiling, memory, dots):
    for seed in range(3):
        plan, p = batch_plan(which, tiling, seed, memory, dots=(torch.zeros(11, 5),) if dots else ())
        block = p.references.blocks[1 if memory else 0]
        members = block.members(which, p.row_labels)
        want = torch.ones(11, 11, dtype=torch.bool) if members is None else members
        assert torch.equal(met(plan), want.long())


@pytest.mark.parametrize("which", ["pos", "neg", "others", "every"])
def test_a_relation_is_met_without_an_order(which):
    relation = torch.randint(-1, 2, (11, 11), generator=torch.Generator().manual_seed(0))
    plan, p = batch_plan(which, Tiling(3, 4), relation=relation)
    members = p.references.blocks[0].members(which, None)
    assert torch.equal(met(plan), (torch.ones(11, 11, dtype=torch.bool) if members is None else members).long())


def test_tiles_are_no_larger_than_asked():
    for tiling in (Tiling(3, 4), Tiling(5, 2)):
        for which in ("pos", "neg"):
            for span in batch_plan(which, tiling)[0].spans():
                assert (span.last - span.first) * (span.right - span.left) <= tiling.rows * tiling.columns


def test_labels_in_order_save_masks_and_products():
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(64) // 4
    p = in_tiles(x, labels, batch_references(x, labels), Tiling(8, 8))
    positives = list(p.plan(Ask("pos", lambda t: total(t.s)), 0).spans())
    assert sum((s.last - s.first) * (s.right - s.left) for s in positives) == 8 * 8 * 8
    negatives = list(p.plan(Ask("neg", lambda t: total(t.s)), 0).spans())
    assert len(negatives) == 8 * 9 // 2  # on and above the diagonal
    assert sum(s.masked for s in negatives) == 8  # on it
    assert all(s.mirrored != (s.first == s.left) for s in negatives)


def test_classes_without_a_sample_are_skipped():
    with tiles(2, 3):
        p = compare_classes_to(torch.randn(100, 5), torch.randn(4, 5), torch.tensor([7, 7, 60, 99]))
    spans = list(p.backend.plan(Ask("pos", lambda t: total(t.s)), 0).spans())
    assert [(s.first, s.left, s.right) for s in spans] == [(6, 0, 2), (60, 2, 3), (98, 3, 4)]


@pytest.mark.parametrize("which", ["pos", "neg", "every"])
@pytest.mark.parametrize("names", [[1, 2, 3, 4], [0, 1, 1, 3], [3, 2, 1, 0]])
def test_columns_with_labels_of_their_own(names, which):
    block = Block(torch.randn(4, 5, dtype=torch.float64), torch.tensor(names))
    x, labels = random_batch(0)
    plan = in_tiles(x, labels, References((block,)), Tiling(3, 4)).plan(Ask(which, lambda t: total(t.s)), 0)
    members = block.members(which, labels)
    assert torch.equal(met(plan), (torch.ones(11, 4, dtype=torch.bool) if members is None else members).long())
