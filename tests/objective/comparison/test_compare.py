"""Setting comparisons up: what is accepted, what is refused and in which words."""

import pytest
import torch

from similis.objective.comparison.compare import compare_classes_to, compare_to_classes
from similis.values import UserError
from tests.batches import random_batch

X, LABELS = random_batch(0)
PROXIES = torch.randn(4, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def test_a_loss_of_one_target_refuses_a_relation():
    with pytest.raises(UserError, match="one target class"):
        compare_to_classes(X, torch.eye(11), PROXIES, sphere=True)


def test_half_embeddings_and_double_proxies_meet_in_the_wide_type_of_the_embeddings():
    p = compare_to_classes(X.half(), LABELS, PROXIES, sphere=True)
    assert p.rows.dtype == p.columns()[0].dtype == torch.float32
    p = compare_classes_to(PROXIES, X.bfloat16(), LABELS)
    assert p.rows.dtype == p.columns()[0].dtype == torch.float32
