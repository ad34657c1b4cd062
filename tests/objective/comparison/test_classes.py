"""Classes against classes: row c and column c are of one class."""

import torch

from similis.objective.comparison.classes import compare_classes, repeat_names
from similis.objective.terms.reductions import total

PROXIES = torch.randn(4, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def test_classes_with_classes_know_their_own():
    p = compare_classes(PROXIES, PROXIES.flip(0))
    assert torch.allclose(p.pos(lambda t: total(t.s)), (PROXIES * PROXIES.flip(0)).sum(1))


def test_several_rows_of_a_class_have_its_name():
    p = compare_classes(torch.stack([PROXIES, 2 * PROXIES], 1), PROXIES)
    assert p.row_labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert repeat_names(torch.arange(2), 3).tolist() == [0, 0, 0, 1, 1, 1]
    own = PROXIES.square().sum(1)
    assert torch.allclose(p.pos(lambda t: total(t.s)), torch.stack([own, 2 * own], 1).flatten())
