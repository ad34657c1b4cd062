"""Metrics against those of other libraries on the same ranking, where the definitions agree.

Where they do not: recall@k here is 1 if a match is among the first k (their hit rate; their recall is the share of
matches found); queries without a match are left out (torchmetrics counts them as 0 unless ``empty_target_action`` is
"skip"), and its average precision drops answers whose score is not above 0; a tie puts the wrong answer first (theirs
keep the order given).
"""

from __future__ import annotations

import importlib

import pytest
import torch

import similis

CHANCE = torch.Generator().manual_seed(3)
X = torch.randn(60, 8, generator=CHANCE)
LABELS = torch.randint(6, (60,), generator=CHANCE)
TAGS = (torch.rand(60, 6, generator=CHANCE) < 0.3).long()


def similarities():
    unit = torch.nn.functional.normalize(X, dim=1)
    return unit @ unit.T


def queries(gain):
    """Scores and gains of each query, without itself; queries without a match are left out."""
    for row, score in enumerate(similarities()):
        others = torch.arange(60) != row
        if gain[row][others].any():
            yield 2 + score[others], gain[row][others]


@pytest.mark.slow
@pytest.mark.parametrize("gain", ["classes", "tags"])
def test_torchmetrics(gain):
    functional = importlib.import_module("torchmetrics.functional.retrieval")
    same = (LABELS[:, None] == LABELS).long() if gain == "classes" else TAGS @ TAGS.T
    found = similis.evaluate(X, torch.nn.functional.one_hot(LABELS) if gain == "classes" else TAGS, ks=(1, 5)).means
    theirs = {
        "recall@5": lambda s, g: functional.retrieval_hit_rate(s, g > 0, top_k=5),
        "precision@5": lambda s, g: functional.retrieval_precision(s, g > 0, top_k=5),
        "map": lambda s, g: functional.retrieval_average_precision(s, g > 0),
        "mrr": lambda s, g: functional.retrieval_reciprocal_rank(s, g > 0),
        "r_precision": lambda s, g: functional.retrieval_r_precision(s, g > 0),
        "ndcg@5": lambda s, g: functional.retrieval_normalized_dcg(s, g, top_k=5),
    }
    for name, metric in theirs.items():
        want = torch.stack([torch.as_tensor(metric(*query), dtype=torch.float64) for query in queries(same)]).mean()
        assert found[name] == pytest.approx(float(want), abs=1e-6), name


@pytest.mark.slow  # compiles for a minute
@pytest.mark.filterwarnings("ignore:.*unsafe cast")
@pytest.mark.parametrize("gain", ["classes", "tags"])
def test_ranx(gain):
    ranx = importlib.import_module("ranx")
    same = (LABELS[:, None] == LABELS).long() if gain == "classes" else TAGS @ TAGS.T
    found = similis.evaluate(X, torch.nn.functional.one_hot(LABELS) if gain == "classes" else TAGS, ks=(1, 5)).means
    known, run = {}, {}
    for number, (score, own) in enumerate(queries(same)):
        known[f"q{number}"] = {f"d{i}": int(g) for i, g in enumerate(own) if g > 0}
        run[f"q{number}"] = {f"d{i}": float(s) for i, s in enumerate(score)}
    names = {"recall@5": "hit_rate@5", "precision@5": "precision@5", "map": "map", "mrr": "mrr",
             "r_precision": "r-precision", "ndcg@5": "ndcg@5"}  # fmt: skip
    want = ranx.evaluate(ranx.Qrels(known), ranx.Run(run), list(names.values()))
    for ours, theirs in names.items():
        assert found[ours] == pytest.approx(want[theirs], abs=1e-6), ours
