"""Without labels on Omniglot: ``python -m benchmarks.two_views [--only ROW] [--json FILE]``.

NT-Xent on two views of each image, which needs no labels, against the network before any training and against losses
with labels. All rows train the small network of ``results/omniglot-tournament`` from scratch, on the same images, with
the settings that its plan names; losses with labels have the options that its search found. Without labels a batch is
50 images in two views, with labels 100 images. A fifth of the training classes validates: it chooses the epoch of every
row, and the temperature and the length of the row without labels (seed 0), before the test classes are opened.
Differences are to the untrained network of the same seed, paired by query; intervals resample classes.
``SIMILIS_DATA`` names the folder of ``omniglot.zip``. Runs are kept below ``runs/two-views`` and go on where they were
stopped; the committed record is ``results/two-views.json``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.rounds import arguments, measure_rows
from similis.model.finished import trained_model
from similis.retrieval.intervals import mean_interval
from similis.run.evaluation import evaluate_rows, judge_of
from similis.run.machine import Machine
from similis.run.parts import build_loader, open_source
from similis.run.result import RunResult
from similis.run.run import run
from similis.run.spec import parse_spec, replace_values
from similis.run.untouched import COMPARED

SEEDS = (0, 1, 2)
TEMPERATURES, LENGTHS = (0.05, 0.1, 0.2, 0.5), (6, 12)
PLAN: dict[str, Any] = {
    "data": {"source": "omniglot", "allow_counts": True, "validation_share": 0.2},
    "model": {
        "backbone": "small_conv", "weights": None, "dim": 128, "image_size": 20, "freeze_batch_norm": False,
        "pooling": "gap", "options": {"width": "slim"},
    },
    "training": {
        "epochs": 6, "batch_size": 100, "lr": 0.002, "schedule": "cosine", "refit": False, "policy": "affine",
    },
    "evaluation": {"ks": [1], "untouched": False},
}  # fmt: skip
UNTRAINED, UNLABELLED = "untrained", "nt_xent, two views without labels"
ROWS: dict[str, dict[str, Any]] = {
    UNTRAINED: {"training.epochs": 0},
    "untrained, own features": {"training.epochs": 0, "model.dim": None, "model.pooling": None},
    UNLABELLED: {
        "objective.loss": "nt_xent", "training.views": 2, "training.labelled": False, "training.sampler": "random",
    },
    "nt_xent": {"objective.loss": "nt_xent", "objective.options": {"temperature": 0.02053}},
    "multi_similarity": {
        "objective.loss": "multi_similarity",
        "objective.options": {"alpha": 2.0, "base_cos": 0.9, "beta": 40.0, "epsilon_cos": 1.0},
    },
    "proxy_anchor": {
        "objective.loss": "proxy_anchor", "objective.options": {"scale": 38.0, "margin_cos": 0.0},
        "training.loss_multiplier": 15.12,
    },
}  # fmt: skip


def train_row(row: str, seed: int, machine: Machine, changes: Mapping[str, Any]) -> RunResult:
    """One run of a row, with some values changed."""
    return run(parse_spec(replace_values(PLAN, {**ROWS[row], "seed": seed, **changes})), machine)


def choose_settings(machine: Machine) -> tuple[dict[str, Any], dict[str, float]]:
    """Temperature and length of the row without labels, and validation R@1 of all that were tried; no test class."""
    tried: dict[tuple[float, int], float] = {}

    def best_of(temperatures: Sequence[float], lengths: Sequence[int]) -> tuple[float, int]:
        for pair in product(temperatures, lengths):
            tried[pair] = train_row(UNLABELLED, 0, machine, unlabelled(*pair)).validation["recall@1"]
        return max(tried, key=lambda pair: tried[pair])

    temperature, _ = best_of(TEMPERATURES, LENGTHS[:1])
    temperature, length = best_of([temperature], LENGTHS)
    shown = {f"temperature {warm}, {epochs} epochs": value for (warm, epochs), value in tried.items()}
    return unlabelled(temperature, length), shown


def unlabelled(temperature: float, length: int) -> dict[str, Any]:
    """Values of the row without labels, with the test split closed, so that a trial can be one of the seeds."""
    options = {"temperature": temperature}
    return {"objective.options": options, "training.epochs": length, "evaluation.test": False}


def test_scores(result: RunResult, machine: Machine) -> Mapping[str, Tensor]:
    """Per-query scores with labels, as the run measured them, or measured now."""
    if result.test:
        return result.scores()
    source, model = open_source(result.spec, machine), trained_model(result, machine)
    found = evaluate_rows(model, build_loader(model, source, result.spec, machine), source.split.test, result.spec)
    judged = judge_of(found, source.manifest)(found, ks=(1,))
    return {**judged.per_query, "labels": found.labels[judged.queries]}


def measure(row: str, machine: Machine) -> dict[str, Any]:
    """Means of all seeds, with intervals, and the difference to the untrained network."""
    changes, tried = choose_settings(machine) if row == UNLABELLED else ({}, {})
    results = [train_row(row, seed, machine, changes) for seed in SEEDS]
    scores = [test_scores(result, machine) for result in results]
    before = [train_row(UNTRAINED, seed, machine, {}).scores() for seed in SEEDS]
    labels = scores[0]["labels"]
    found: dict[str, Any] = {"options": dict(results[0].spec.objective.options), "validation, seed 0": tried}
    found |= {"epochs": [result.epochs for result in results], "of": results[0].spec.training.epochs}
    for name in COMPARED:
        mine, start = (torch.stack([each[name] for each in side]).double() for side in (scores, before))
        found[f"{name} of each seed"] = mine.nanmean(1).tolist()
        found[name] = list(mean_interval(mine.mean(0), labels))
        found[f"gain {name}"] = list(mean_interval((mine - start).mean(0), labels))
    return found


def main() -> None:
    """Run what is asked for, write the record row by row."""
    asked = arguments(__doc__ or "", list(ROWS))
    machine = Machine(root=Path("runs/two-views"), device="cpu")
    measure_rows("two_views", asked, ROWS, lambda row: measure(row, machine))


if __name__ == "__main__":
    main()
