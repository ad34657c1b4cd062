"""pytorch-metric-learning's AccuracyCalculator: equal where it is right, and where it is not, by name."""

import pytest
import torch

from similis.retrieval.evaluate import evaluate
from similis.values import Embedded

NAMES = {
    "precision_at_1": "precision@1",
    "r_precision": "r_precision",
    "mean_average_precision_at_r": "map@r",
    "mean_reciprocal_rank": "mrr",
}


def peer(vectors, labels, queries=None):
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    calculator = AccuracyCalculator(include=tuple(NAMES), device=torch.device("cpu"))
    unit = torch.nn.functional.normalize(vectors, dim=1)
    if queries is None:
        return calculator.get_accuracy(unit, labels)
    return calculator.get_accuracy(unit[queries], labels[queries], unit[~queries], labels[~queries])


def clustered(count, classes, seed):
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=chance)
    x = torch.randn(classes, 16, generator=chance)[labels] + 1.5 * torch.randn(count, 16, generator=chance)
    return Embedded(x, labels, torch.arange(count))


@pytest.mark.parametrize(("count", "classes"), [(200, 10), (150, 70), (60, 2)])
@pytest.mark.parametrize("split", [True, False])
def test_equal_without_ties_singletons_included(count, classes, split):
    embedded = clustered(count, classes, count)
    queries = embedded.ids % 3 == 0 if split else None
    theirs = peer(embedded.vectors, embedded.labels, queries)
    ours = evaluate(embedded, ks=(1,), queries=queries, gallery=None if queries is None else ~queries).means
    assert 0.05 < ours["map@r"] < 0.95
    for name, own in NAMES.items():  # their reciprocal ranks are float32
        assert ours[own] == pytest.approx(theirs[name], abs=1e-6 if own == "mrr" else 1e-12), name


def test_wrong_there_labels_above_2_to_24_become_one_class():
    embedded = Embedded(torch.randn(2, 4), torch.tensor([2**24, 2**24 + 1]), torch.arange(2))
    assert peer(embedded.vectors, embedded.labels)["precision_at_1"] == 1.0
    ours = evaluate(embedded, ks=(1,))
    assert ours.excluded == 2
    assert ours.means["precision@1"] != ours.means["precision@1"]


def test_wrong_there_ties_are_answered_by_the_order_of_the_rows():
    vectors, sorted_labels = torch.ones(40, 4), torch.arange(40) // 20
    mixed_labels = torch.arange(40) % 2
    answers = [peer(vectors, labels)["r_precision"] for labels in (sorted_labels, mixed_labels)]
    assert answers[0] != pytest.approx(answers[1], abs=0.01)
    for labels in (sorted_labels, mixed_labels):
        assert evaluate(Embedded(vectors, labels, torch.arange(40))).means["r_precision"] == 0.0
