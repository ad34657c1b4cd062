"""Classification by a labelled gallery, and open-set rates, against plain loops."""

import math

import pytest
import torch

from similis.retrieval.classification import Classified, classify_vectors, open_set, unknown_threshold
from similis.retrieval.search import search
from similis.values import UserError


def plain_class(similarity, labels, k, threshold):
    """The winning label of one query by loops over its similarities."""
    near = sorted(range(len(similarity)), key=lambda row: (-similarity[row], row))[:k]
    votes = {}
    for row in near:
        votes.setdefault(labels[row], []).append(similarity[row])
    order = [labels[row] for row in near]
    best = max(votes, key=lambda label: (len(votes[label]), sum(votes[label]), -order.index(label)))
    score = max(votes[best])
    return (best if threshold is None or score >= threshold else -1), score


@pytest.mark.parametrize("k", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("threshold", [None, 0.6])
def test_classes_equal_plain_loops(k, threshold):
    chance = torch.Generator().manual_seed(k)
    queries, gallery = torch.randn(30, 4, generator=chance), torch.randn(20, 4, generator=chance)
    gallery[5] = gallery[2]
    labels = torch.randint(4, (20,), generator=chance) * 10
    found = classify_vectors(queries, gallery, labels, k=k, threshold=threshold, tile=100)
    near = search(queries, gallery, 20)
    for q in range(30):
        similarity = [0.0] * 20
        for row, value in zip(near.index[q].tolist(), near.similarity[q].tolist(), strict=True):
            similarity[row] = value
        label, score = plain_class(similarity, labels.tolist(), k, threshold)
        assert (int(found.labels[q]), float(found.scores[q])) == (label, pytest.approx(score, abs=1e-6))
    if threshold is not None:
        assert 0 < int((found.labels == -1).sum()) < 30


def test_a_query_leaves_its_own_group_and_meets_nobody():
    gallery = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    found = classify_vectors(
        gallery, gallery, torch.tensor([4, 5]), groups=(torch.tensor([0, 1]), torch.tensor([0, 1]))
    )
    assert found.labels.tolist() == [5, 4]
    alone = classify_vectors(
        gallery[:1], gallery, torch.tensor([4, 5]), groups=(torch.tensor([0]), torch.tensor([0, 0]))
    )
    assert alone.labels.tolist() == [-1]
    assert alone.scores.tolist() == [-math.inf]
    with pytest.raises(UserError, match="a label of 0 or more"):
        classify_vectors(gallery, gallery, torch.tensor([4, -1]))


def test_open_set_rates_equal_plain_loops():
    chance = torch.Generator().manual_seed(0)
    truth = torch.randint(8, (200,), generator=chance)
    answer = torch.where(torch.rand(200, generator=chance) < 0.6, truth, torch.randint(5, (200,), generator=chance))
    answer[(truth > 4) & (answer > 4)] = -1
    answer[torch.rand(200, generator=chance) < 0.2] = -1
    known = torch.tensor([4, 0, 1, 2, 3, 3])
    found = open_set(Classified(answer, torch.zeros(200)), truth, known, draws=100)
    rows = list(zip(truth.tolist(), answer.tolist(), strict=True))
    strangers, friends = [a for t, a in rows if t > 4], [(t, a) for t, a in rows if t <= 4]
    accepted = [(t, a) for t, a in rows if a >= 0]
    assert found.unknown_accepted.value == pytest.approx(sum(a >= 0 for a in strangers) / len(strangers))
    assert found.known_refused.value == pytest.approx(sum(a < 0 for _, a in friends) / len(friends))
    assert found.known_right.value == pytest.approx(sum(a == t for t, a in friends) / len(friends))
    assert found.accepted_right.value == pytest.approx(sum(a == t for t, a in accepted) / len(accepted))
    for one in found:
        assert one.low < one.value < one.high
    none = open_set(Classified(answer, torch.zeros(200)), truth, torch.arange(8), draws=100)
    assert math.isnan(none.unknown_accepted.value)


@pytest.mark.parametrize("accept", [None, 0.0, 0.1, 0.5, 1.0])
def test_the_threshold_of_unknown_equals_plain_loops(accept):
    chance = torch.Generator().manual_seed(7)
    centres = torch.randn(6, 5, generator=chance)
    labels = torch.arange(6).repeat_interleave(4)
    x = torch.nn.functional.normalize((centres[labels] + 0.7 * torch.randn(24, 5, generator=chance)).double(), dim=1)
    friends, strangers = [], []
    for i in range(24):
        friends.append(max(float(x[i] @ x[j]) for j in range(24) if j != i and labels[i] == labels[j]))
        strangers.append(max(float(x[i] @ x[j]) for j in range(24) if labels[i] != labels[j]))
    found = unknown_threshold(x, labels, accept)
    accepted = sum(value >= found for value in strangers) / 24
    if accept is not None:
        assert accepted <= accept
        lower = max((value for value in strangers if value < found), default=None) if accept < 1 else None
        if lower is not None:  # the next smaller threshold would let one more in than allowed
            assert sum(value >= lower for value in strangers) / 24 > accept
        return
    refused = sum(value < found for value in friends) / 24
    for other in strangers:
        at = other + 1e-6
        gap = abs(sum(v >= at for v in strangers) / 24 - sum(v < at for v in friends) / 24)
        assert abs(accepted - refused) <= gap + 1e-9


def test_a_gallery_of_single_photos_accepts_one_stranger_in_twenty():
    x = torch.nn.functional.normalize(torch.randn(40, 6, generator=torch.Generator().manual_seed(3)), dim=1)
    limit = unknown_threshold(x, torch.arange(40))
    assert ((x @ x.T).fill_diagonal_(-1).amax(1) >= limit).sum() == 2
    with pytest.raises(UserError, match="two classes or more"):
        unknown_threshold(x, torch.zeros(40, dtype=torch.long))
