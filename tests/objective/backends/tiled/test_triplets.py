"""The hinge over all triplets by sorted positives: brute force, ties, memory."""

import pytest
import torch
from torch.nn.functional import relu

from similis.objective.backends.tiled import triplets as module
from similis.objective.comparison.compare import compare
from similis.objective.context import dense, tiles
from similis.objective.losses.triplet import over_triplets, triplet
from similis.objective.references import Block, batch_references
from similis.objective.terms.distances import GEOMETRIES
from tests.batches import random_batch


def brute(p, geometry, margin):
    """Value, number and active triplets of every row by the whole cube, differentiated by autograd."""
    rows, columns = p.rows, torch.cat(p.columns())
    norms = None if p.on_sphere else rows.square().sum(1)[:, None] + columns.square().sum(1)
    s = rows @ columns.T
    far = -s if geometry == "cosine" else (2 if norms is None else norms) - 2 * s
    if geometry == "euclid":
        far = torch.where(far > 1e-14, far, 1.0).sqrt() * (far > 1e-14)
    positive = torch.cat([b.members("pos", p.row_labels) for b in p.references], 1)
    negative = torch.cat([b.members("neg", p.row_labels) for b in p.references], 1)
    cube = far[:, :, None] - far[:, None, :] + margin
    allowed = positive[:, :, None] & negative[:, None, :]
    hinge = torch.where(allowed, cube.relu(), 0.0)
    return hinge.sum((1, 2)), allowed.sum((1, 2)), (hinge > 0).sum((1, 2))


def hinges_of(p, geometry, margin):
    """By the back-end, or where it leaves them to reductions, by those."""
    found = p.hinges(geometry, margin)
    if found is not None:
        return found
    return over_triplets(p, lambda near, far, _: relu(near.far(geometry) - far.far(geometry) + margin), directed=False)


def cases(x, labels, what):
    if what == "memory":
        old, old_labels = random_batch(9)
        ids = torch.arange(11)
        return labels, batch_references(x, labels, Block(old, old_labels, own=ids, ids=ids + 3))
    if what == "relation":
        relation = torch.randint(-1, 2, (11, 11), generator=torch.Generator().manual_seed(3))
        return relation, None
    return labels, None


@pytest.mark.parametrize("what", ["batch", "memory", "relation"])
@pytest.mark.parametrize("few", [0, 12])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_whole_cube_says_the_same(geometry, few, what, monkeypatch):
    """By comparing one by one and by searching; in strips of one, three and all rows."""
    monkeypatch.setattr(module, "FEW", few)
    for seed in range(2):
        for margin in (-0.3, 0.0, 0.1, 50.0):
            for context in (dense(), tiles(1, 1), tiles(3, 4)):
                x, labels = random_batch(seed, duplicates=seed == 0)
                x.requires_grad_()
                given, references = cases(x, labels, what)
                with context:
                    p = compare(x, given, references, sphere=geometry != "euclid2")
                    value, number, active = hinges_of(p, geometry, margin)
                    want, all_of_them, above = brute(p, geometry, margin)
                assert torch.allclose(value, want, atol=1e-10)
                assert torch.equal(number, all_of_them)
                if margin != 0:  # equal vectors make ties that rounding decides, and nothing rests on
                    assert torch.equal(active, above)
                weights = torch.arange(1.0, 12.0, dtype=torch.float64)
                (got,) = torch.autograd.grad((value * weights).sum(), x, retain_graph=True)
                (slope,) = torch.autograd.grad((want * weights).sum(), x)
                if margin != 0:
                    assert (got - slope).abs().max() < 1e-10 * max(1.0, float(slope.abs().max()))


def test_a_triplet_at_the_kink_has_value_and_slope_zero():
    x = torch.tensor([[0.0], [1.0], [3.0]], requires_grad=True)  # 1 - 9 + 8 and 1 - 4 + 3
    for margin, where in ((8.0, 0), (3.0, 1)):
        p = compare(x, torch.tensor([0, 0, 1]), sphere=False)
        value, _, active = p.hinges("euclid2", margin)
        assert value[where] == 0
        assert active[where] == 0
        (gradient,) = torch.autograd.grad(value[where], x)
        assert gradient.abs().sum() == 0


def test_in_float32_the_sums_keep_their_digits():
    x, labels = torch.randn(300, 8, generator=torch.Generator().manual_seed(0)) + 3, torch.arange(300) % 2
    with dense():
        want = triplet(x.double(), labels, geometry="euclid2", reduction="sum")
    got = triplet(x, labels, geometry="euclid2", reduction="sum")
    assert got.item() == pytest.approx(want.item(), rel=1e-5)
