"""Ranking metrics: their definitions for every list of answers, and worked numbers."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from similis.retrieval.metrics import ranking
from tests.retrieval.plain_evaluation import plain_metrics

KS = (1, 3, 12)
METRICS = {
    **{f"recall@{k}": partial(ranking.recall_at_k, k=k) for k in KS},
    **{f"precision@{k}": partial(ranking.precision_at_k, k=k) for k in KS},
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
        want = [plain_metrics(hits, KS) for hits in lists]
        want = [math.nan if one is None else one[name] for one in want]
        assert metric(found).tolist() == pytest.approx(want, abs=1e-12, nan_ok=True), name


def test_worked_by_hand():
    found = ranks_of([[False, True, True, False, True]])
    want = {"recall@3": 1, "precision@3": 2 / 3, "r_precision": 2 / 3, "map@r": (1 / 2 + 2 / 3) / 3, "mrr": 1 / 2}
    for name, value in want.items():
        assert METRICS[name](found).item() == pytest.approx(value, abs=1e-15), name
