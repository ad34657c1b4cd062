"""Setting comparisons up: what is accepted, what is refused and in which words."""

import pytest
import torch

from similis.objective.comparison.compare import compare, compare_classes_to, compare_to_classes
from similis.objective.references import batch_references
from similis.objective.terms.reductions import total
from similis.values import UserError
from tests.batches import random_batch

X, LABELS = random_batch(0)
PROXIES = torch.randn(4, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize("sphere", [True, False])
def test_samples_with_samples(sphere):
    p = compare(X, LABELS, sphere=sphere)
    rows = torch.nn.functional.normalize(X) if sphere else X
    assert torch.allclose(p.every(lambda t: total(t.s)), (rows @ rows.T).sum(1))
    assert p.on_sphere is sphere


@pytest.mark.parametrize("sphere", [True, False])
def test_samples_with_classes(sphere):
    p = compare_to_classes(X, LABELS, PROXIES, sphere=sphere)
    a, b = (torch.nn.functional.normalize(v) if sphere else v for v in (X, PROXIES))
    assert torch.allclose(p.pos(lambda t: total(t.s)), (a * b[LABELS]).sum(1))
    assert torch.allclose(p.neg(lambda t: total(t.s)), (a @ b.T).sum(1) - (a * b[LABELS]).sum(1))


def test_classes_with_samples_from_labels_relation_and_references_agree():
    hot = torch.nn.functional.one_hot(LABELS, 4)
    ways = [(LABELS, None), (hot, None), (LABELS, batch_references(X, LABELS))]
    results = [compare_classes_to(PROXIES, X, y, refs).pos(lambda t: total(t.s)) for y, refs in ways]
    a, b = (torch.nn.functional.normalize(v) for v in (X, PROXIES))
    want = ((b @ a.T) * hot.T).sum(1)
    for got in results:
        assert torch.allclose(got, want)


@pytest.mark.parametrize("strange", [-1, 4, 2**53])
def test_labels_without_a_proxy_are_refused_with_the_remedy(strange):
    labels = LABELS.clone()
    labels[0] = strange
    for way in (
        lambda: compare_to_classes(X, labels, PROXIES, sphere=True),
        lambda: compare_classes_to(PROXIES, X, labels),
    ):
        with pytest.raises(UserError, match=f"{strange}.*classes 0 to 3.*class_ids="):
            way()


def test_a_loss_of_one_target_refuses_a_relation():
    with pytest.raises(UserError, match="one target class"):
        compare_to_classes(X, torch.eye(11), PROXIES, sphere=True)


def test_half_embeddings_and_double_proxies_meet_in_the_wide_type_of_the_embeddings():
    p = compare_to_classes(X.half(), LABELS, PROXIES, sphere=True)
    assert p.rows.dtype == p.columns()[0].dtype == torch.float32
    p = compare_classes_to(PROXIES, X.bfloat16(), LABELS)
    assert p.rows.dtype == p.columns()[0].dtype == torch.float32
