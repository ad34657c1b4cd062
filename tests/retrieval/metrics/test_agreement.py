"""NMI, AMI and pair F1: equal to scikit-learn and to counting pairs."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

from similis.retrieval.metrics.agreement import ami, nmi, pair_f1
from similis.values import UserError


def plain_pair_f1(labels, clusters):
    right = wrong = 0
    for i, j in itertools.combinations(range(len(labels)), 2):
        together, same = clusters[i] == clusters[j], labels[i] == labels[j]
        right += together and same
        wrong += together != same
    return 2 * right / (2 * right + wrong) if right + wrong else 1.0


def sizes(count):
    return st.lists(st.integers(0, 4), min_size=count, max_size=count)


@settings(deadline=None)
@given(st.integers(1, 25).flatmap(lambda count: st.tuples(sizes(count), sizes(count))))
def test_equal_to_scikit_learn_and_to_counting(both):
    labels, clusters = both
    x, y = torch.tensor(labels), torch.tensor(clusters) * 7919 + 2**40  # names do not matter
    assert nmi(x, y) == pytest.approx(normalized_mutual_info_score(labels, clusters), abs=1e-10)
    assert ami(x, y) == pytest.approx(adjusted_mutual_info_score(labels, clusters), abs=1e-10)
    assert pair_f1(x, y) == pytest.approx(plain_pair_f1(labels, clusters), abs=1e-12)


@pytest.mark.parametrize(("count", "classes", "clusters"), [(3000, 40, 60), (4000, 900, 1100), (2000, 3, 2)])
def test_equal_to_scikit_learn_on_larger_sets(count, classes, clusters):
    chance = torch.Generator().manual_seed(count)
    labels = (torch.rand(count, generator=chance) ** 2 * classes).long()
    found = torch.where(
        torch.rand(count, generator=chance) < 0.5, labels, torch.randint(0, clusters, (count,), generator=chance)
    )
    assert nmi(labels, found) == pytest.approx(normalized_mutual_info_score(labels, found), abs=1e-10)
    assert ami(labels, found) == pytest.approx(adjusted_mutual_info_score(labels, found), abs=1e-9)


def test_chance_is_zero():
    chance = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 30, (2000,), generator=chance)
    random = torch.randint(0, 30, (2000,), generator=chance)
    assert nmi(labels, random) > 0.05
    assert abs(ami(labels, random)) < 0.01


def test_two_vectors_of_one_length_are_needed():
    for labels, clusters in [(torch.arange(3), torch.arange(2)), (torch.arange(0), torch.arange(0))]:
        with pytest.raises(UserError, match="one length"):
            nmi(labels, clusters)
