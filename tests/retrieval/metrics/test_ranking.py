"""Ranking metrics: worked numbers, bounds, order in k, relations that hold for every list of answers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from similis.retrieval.metrics import ranking
from tests.retrieval.plain_evaluation import plain_metrics

METRICS = {
    "recall@3": lambda found: ranking.recall_at_k(found, 3),
    "precision@3": lambda found: ranking.precision_at_k(found, 3),
    "r_precision": ranking.r_precision,
    "map@r": ranking.map_at_r,
    "mrr": ranking.reciprocal_rank,
}
answers = st.lists(st.lists(st.booleans(), min_size=1, max_size=12), min_size=1, max_size=5)


def ranks_of(lists):
    """Ranks from lists of right and wrong answers."""
    ranks = [[place + 1 for place, hit in enumerate(hits) if hit] for hits in lists]
    width = max(len(row) for row in ranks)
    padded = torch.tensor([row + [ranking.BEYOND] * (width - len(row)) for row in ranks], dtype=torch.long)
    return ranking.Ranks(padded.reshape(len(lists), width), torch.tensor([len(row) for row in ranks]))


@given(answers)
def test_equal_to_the_definitions(lists):
    found = ranks_of(lists)
    for name, metric in METRICS.items():
        want = [plain_metrics(hits, (3,)) for hits in lists]
        want = [math.nan if one is None else one[name] for one in want]
        assert metric(found).tolist() == pytest.approx(want, abs=1e-12, nan_ok=True), name


@given(answers)
def test_bounds_and_relations(lists):
    found = ranks_of(lists)
    some = found.matches > 0
    values = {name: metric(found)[some] for name, metric in METRICS.items()}
    assert all(((value >= 0) & (value <= 1)).all() for value in values.values())
    assert (values["map@r"] <= values["r_precision"] + 1e-12).all()
    assert (values["mrr"] > 0).all()
    assert torch.equal(ranking.recall_at_k(found, 1)[some], ranking.precision_at_k(found, 1)[some])
    assert torch.equal(values["mrr"] == 1, ranking.recall_at_k(found, 1)[some] == 1)


@given(answers)
def test_recall_grows_with_k_and_reaches_one(lists):
    found = ranks_of(lists)
    some = found.matches > 0
    curve = torch.stack([ranking.recall_at_k(found, k)[some] for k in range(1, 13)])
    hits = torch.stack([ranking.precision_at_k(found, k)[some] * k for k in range(1, 13)])
    assert (curve.diff(dim=0) >= 0).all()
    assert (hits.diff(dim=0) >= -1e-12).all()
    assert (curve[-1] == 1).all()


@given(answers, st.randoms())
def test_queries_do_not_see_each_other(lists, chance):
    order = list(range(len(lists)))
    chance.shuffle(order)
    shuffled = ranks_of([lists[place] for place in order])
    for name, metric in METRICS.items():
        alone = metric(ranks_of(lists))[torch.tensor(order)]
        assert torch.equal(alone.nan_to_num(-1), metric(shuffled).nan_to_num(-1)), name


@given(st.lists(st.booleans(), min_size=2, max_size=12).filter(any))
def test_a_match_that_moves_up_never_costs(hits):
    for place in range(1, len(hits)):
        if hits[place] and not hits[place - 1]:
            better = [*hits[: place - 1], True, False, *hits[place + 1 :]]
            for name, metric in METRICS.items():
                assert metric(ranks_of([better])) >= metric(ranks_of([hits])), name


def test_worked_by_hand():
    found = ranks_of([[False, True, True, False, True]])
    want = {"recall@3": 1, "precision@3": 2 / 3, "r_precision": 2 / 3, "map@r": (1 / 2 + 2 / 3) / 3, "mrr": 1 / 2}
    for name, value in want.items():
        assert METRICS[name](found).item() == pytest.approx(value, abs=1e-15), name
