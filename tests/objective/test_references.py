"""References: a row never meets itself, duplicates stay, memories are masked by image id."""

import pytest
import torch

from similis.objective.references import Block, References, batch_references
from similis.sphere import unit, widen
from similis.values import UserError

LABELS = torch.tensor([7, 3, 7, 3, 7, 1])


def vectors(count=6, dim=4, seed=0):
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def columns(mask):
    return [row.nonzero()[:, 0].tolist() for row in mask]


def test_self_is_left_out_by_place_and_duplicates_stay():
    x = vectors()[:1].expand(6, -1)  # every row equals every other
    (block,) = batch_references(x, LABELS)
    assert columns(block.members("pos", LABELS)) == [[2, 4], [3], [0, 4], [1], [0, 2], []]
    even, odd = [1, 3, 5], [0, 2, 4, 5]
    assert columns(block.members("neg", LABELS)) == [even, odd, even, odd, even, [0, 1, 2, 3, 4]]
    assert columns(block.members("others", LABELS)) == [[j for j in range(6) if j != i] for i in range(6)]
    assert block.members("every", LABELS) is None


def test_a_memory_is_masked_by_image_id_not_by_value():
    x = vectors()
    memory = Block(
        x[[0, 0, 1]], LABELS[[0, 0, 1]], own=torch.tensor([50, 51, 52, 53, 54, 55]), ids=torch.tensor([50, 99, 51])
    )
    batch, old = batch_references(x, LABELS, memory)
    assert columns(old.members("pos", LABELS)) == [[1], [], [0, 1], [2], [0, 1], []]
    assert columns(old.members("others", LABELS)) == [[1, 2], [0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]]
    assert batch.mirrored
    assert not old.mirrored


def test_classes_have_no_self():
    block = Block(vectors(3), torch.arange(3))
    assert columns(block.members("pos", torch.tensor([1, 1]))) == [[1], [1]]
    assert block.members("others", torch.tensor([1, 1])) is None


def test_a_relation_has_positives_negatives_and_neither():
    relation = torch.tensor([[1.0, 0.5, 0.0], [0.5, 1.0, -1.0], [0.0, -1.0, 1.0]])
    (block,) = batch_references(vectors(3), relation)
    assert columns(block.members("pos", None)) == [[1], [0], []]
    assert columns(block.members("neg", None)) == [[2], [], [0]]
    assert columns(block.members("others", None)) == [[1, 2], [0, 2], [0, 1]]


@pytest.mark.parametrize("as_relation", [False, True])
def test_positives_list_each_rows_set_in_rising_order(as_relation):
    given = (LABELS[:, None] == LABELS[None, :]).double() if as_relation else LABELS
    (block,) = batch_references(vectors(), given)
    index, real = block.positives(None if as_relation else LABELS)
    got = [index[i][real[i]].tolist() for i in range(6)]
    assert got == [[2, 4], [3], [0, 4], [1], [0, 2], []]
    assert index.shape == (6, 3)  # as wide as the largest class, self included


def test_positives_among_strange_labels_are_none():
    block = Block(vectors(3), torch.tensor([5, 5, 9]))
    index, real = block.positives(torch.tensor([1, 9, 12]))
    assert [index[i][real[i]].tolist() for i in range(3)] == [[], [2], []]
    assert bool((index >= 0).all() and (index < 3).all())


def test_without_labels_and_relation_there_are_no_sets():
    with pytest.raises(UserError, match="neither labels nor a relation"):
        Block(vectors(2), None).same(None)
    with pytest.raises(UserError, match="labels or a relation"):
        Block(vectors(2), None).positives(None)


def test_a_memory_beside_a_relation_is_refused():
    with pytest.raises(UserError, match="drop the relation matrix or the memory"):
        batch_references(vectors(2), torch.eye(2), Block(vectors(2), torch.arange(2)))


def test_blocks_are_transformed_together_and_keep_what_they_know():
    memory = Block(vectors(2, seed=1).half(), torch.arange(2), own=torch.arange(6), ids=torch.arange(2))
    refs = batch_references(vectors(), LABELS, memory)
    assert len(refs) == 8
    assert [b.vectors.norm(dim=1).sub(1).abs().max() < 1e-6 for b in refs.each(unit)] == [True, True]
    assert [b.vectors.dtype for b in refs.each(widen)] == [torch.float64, torch.float32]
    assert [tuple(b.vectors.shape) for b in refs.cut(3)] == [(6, 3), (2, 3)]
    assert torch.equal(refs.cut(3).blocks[0].vectors, vectors()[:, :3])
    assert [torch.equal(a.labels, b.labels) for a, b in zip(refs, refs.cut(3), strict=True)] == [True, True]
    assert refs.each(unit).blocks[1].own is memory.own


def test_no_blocks_have_no_columns():
    assert len(References(())) == 0
