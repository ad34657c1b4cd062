"""A tile as a loss sees it."""

import pytest
import torch

from similis.objective.terms.reductions import lse, total
from similis.objective.terms.tile import MUTUAL, Tile, WatchedTile, transpose_term
from similis.values import UserError


def tile(row_labels, column_labels):
    return Tile(
        s=torch.tensor([[0.5, -1.0, 1.0], [0.0, 0.25, 0.75]]),
        squares=(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0, 2.0, 1.0]])),
        grade=1.0,
        once=0.5,
        row_labels=row_labels,
        column_labels=column_labels,
        columns=torch.arange(3)[None],
    )


def test_a_relation_has_no_labels():
    with pytest.raises(UserError, match="needs labels"):
        _ = tile(None, None).same
    with pytest.raises(UserError, match="needs labels"):
        tile(None, None).of_classes(torch.eye(3))


def test_what_a_function_reads_is_noted():
    alike = WatchedTile(tile(torch.tensor([0, 2]), torch.tensor([2, 0, 1])))
    assert torch.equal(alike.d2 + alike.far("cosine"), alike.tile.d2 - alike.tile.s)
    assert alike.read == {"d2", "far"}
    assert alike.read <= MUTUAL
    for name in ("columns", "same", "grade", "row_labels", "of_classes", "squares"):  # differ in the mirror image
        getattr(alike, name)
        assert name in alike.read
        assert name not in MUTUAL


def test_a_turned_term_is_that_of_the_mirror_image():
    values, where = torch.arange(12.0).view(2, 3, 2), torch.arange(6).view(2, 3) > 2
    term = transpose_term(lse(values, where))
    assert term.kind == "lse"
    assert term.values.tolist() == [[values[i, j].tolist() for i in range(2)] for j in range(3)]
    assert term.where.tolist() == where.T.tolist()
    assert transpose_term(total(values)).where is None
