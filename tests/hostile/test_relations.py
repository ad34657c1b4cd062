"""Labels in shapes that once passed as a relation: a column of classes, one-hot rows, documents."""

import pytest
import torch

import similis
from similis.registry import losses
from similis.values import UserError

B, C, D = 6, 4, 8
X = torch.randn(B, D, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 0, 1, 1, 2, 2])


def make(name: str):
    return similis.loss(name, num_classes=C, dim=D) if losses.get(name).learns else similis.loss(name)


@pytest.mark.parametrize("name", [entry.name for entry in losses])
@pytest.mark.parametrize("labels", [
    LABELS[:, None], LABELS[None], torch.nn.functional.one_hot(LABELS, B), torch.nn.functional.one_hot(LABELS, 3),
    torch.nn.functional.one_hot(LABELS, 9).float(), torch.zeros(B, B), torch.zeros(B, 0), X[:, :B],
], ids=["column", "row", "one-hot B", "one-hot 3", "one-hot 9", "zeros", "nothing", "documents"])  # fmt: skip
def test_what_is_no_relation_is_refused(name, labels):
    with pytest.raises(UserError) as caught:
        make(name)(X, labels)
    assert "pass" in str(caught.value)


def test_a_graded_relation_may_leave_the_diagonal_open():
    graded = torch.full((B, B), 0.5).fill_diagonal_(0.0)
    assert torch.isfinite(similis.loss("multi_similarity")(X, graded))


@pytest.mark.parametrize("name", [entry.name for entry in losses if entry.relation != "none"])
def test_a_relation_with_nan_is_refused(name):
    columns = C if losses.get(name).family in ("proxy", "classification") else B
    relation = torch.ones(B, columns)
    relation[2, 1] = float("nan")
    with pytest.raises(UserError, match="the relation holds NaN"):
        make(name)(X, relation)


def test_a_compiled_loss_refuses_one_hot_labels_too():
    compiled = torch.compile(similis.loss("triplet"), fullgraph=True, backend="aot_eager")
    good = (LABELS[:, None] == LABELS).float()
    assert torch.allclose(compiled(X, good), similis.loss("triplet")(X, good))
    with pytest.raises(UserError, match="with a 0 on the diagonal"):
        compiled(X, torch.nn.functional.one_hot(LABELS, B).float())
