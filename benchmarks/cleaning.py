"""Does cleaning pay? ``python -m benchmarks.cleaning [--only ROW] [--json FILE]``.

A tenth of the training labels of CARS196 is made wrong: each becomes a random other training class. Heads of 512
dimensions then train on ready features of EfficientNet-lite0 (``python -m benchmarks.native_features --only "cars196
lite0"`` makes them) in three ways: with these labels, without the images that ``similis data check --model`` would
exclude for their labels, and with the true labels. Five repetitions, each with its own wrong labels and its own seed,
ten epochs and nothing chosen on the way; Recall@1 of the test classes, whose labels stay right. Ways are compared in
pairs of one seed and one set of wrong labels. One row is one loss.

The judge of the labels and the training see the same features: what cleaning gives a whole network is not measured.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.native_features import FOLDER
from benchmarks.rounds import arguments, known_rows, write_json
from benchmarks.selection import mean_interval
from similis.model.faults import DOUBT
from similis.retrieval.similarity import to_comparable
from similis.retrieval.suspects import label_votes, nearest_samples
from similis.run.machine import Machine
from similis.run.run import run
from similis.run.spec import parse_spec

LOSSES = ("proxy_anchor", "multi_similarity", "contrastive")
WAYS = ("wrong labels", "excluded", "true labels")
REPETITIONS, SHARE = 5, 0.1
TABLES = Path("runs/cleaning")


def plant_wrong(labels: np.ndarray, seed: int) -> np.ndarray:
    """Labels of which a tenth is another class of the same set."""
    chance = np.random.default_rng(seed)
    classes = np.unique(labels)
    places = np.searchsorted(classes, labels)
    rows = chance.choice(len(labels), round(SHARE * len(labels)), replace=False)
    places[rows] = (places[rows] + chance.integers(1, len(classes), len(rows))) % len(classes)
    return classes[places]


def write_ways(seed: int) -> dict[str, Any]:
    """Write the table of each way for one repetition; say how well the exclusion found the wrong labels."""
    table = pq.read_table(FOLDER / "cars196-lite0.parquet")
    train = np.flatnonzero(np.array(table["split"].to_pylist()) == "train")
    labels, names = table["label"].to_numpy().copy(), np.array(table["class_name"].to_pylist())
    name_of = dict(zip(labels.tolist(), names.tolist(), strict=True))
    given = plant_wrong(labels[train], seed)
    wrong = given != labels[train]
    vectors = torch.from_numpy(np.stack(table["vector"].to_numpy()[train]))
    codes = torch.from_numpy(np.unique(given, return_inverse=True)[1])
    doubted = label_votes(nearest_samples(to_comparable(vectors)), codes).doubt.numpy() >= DOUBT
    noisy = labels.copy()
    noisy[train] = given
    kept = np.setdiff1d(np.arange(len(labels)), train[doubted])
    for way, values, rows in (
        (WAYS[0], noisy, np.arange(len(labels))), (WAYS[1], noisy, kept), (WAYS[2], labels, np.arange(len(labels))),
    ):  # fmt: skip
        columns = {
            "label": pa.array(values), "class_name": pa.array([name_of[each] for each in values.tolist()]),
            "vector": table["vector"], "split": table["split"],
        }  # fmt: skip
        path = table_path(way, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns).take(pa.array(rows)), path)
    hits = int((doubted & wrong).sum())
    return {"wrong": int(wrong.sum()), "excluded": int(doubted.sum()), "of them wrong": hits, "training": len(train)}


def table_path(way: str, seed: int) -> Path:
    """Where the table of a way is."""
    return TABLES / f"{way.replace(' ', '-')}-{seed}.parquet"


def train_head(loss: str, way: str, seed: int) -> float:
    """Train a head, and give its Recall@1 on the test classes."""
    spec = parse_spec({
        "data": {"source": str(table_path(way, seed))}, "objective": {"loss": loss}, "seed": seed,
        "model": {"backbone": "identity", "weights": None, "dim": 512, "options": {"features": 1280}},
        "training": {"epochs": 10, "batch_size": 100, "lr": 0.0005, "schedule": "cosine", "select": "last"},
        "evaluation": {"ks": [1], "untouched": False},
    })  # fmt: skip
    return float(run(spec, Machine(root=TABLES / "runs", device="cpu")).test["recall@1"])


def measure(loss: str) -> dict[str, Any]:
    """Recall of every way and repetition of one loss."""
    return {"recall": {way: [train_head(loss, way, seed) for seed in range(REPETITIONS)] for way in WAYS}}


def gain(found: dict[str, Any], way: str) -> list[float]:
    """Points that a way gains over the wrong labels, with the 95 % interval: pairs share seed and wrong labels."""
    pairs = zip(found["recall"][way], found["recall"][WAYS[0]], strict=True)
    return mean_interval([100 * (one - other) for one, other in pairs])


def page_row(loss: str, found: dict[str, Any]) -> str:
    """One line of the page."""
    cells = [f"{100 * float(np.mean(found['recall'][way])):.1f}" for way in WAYS]
    cells += ["{:+.2f} ({:+.2f} to {:+.2f})".format(*gain(found, way)) for way in WAYS[1:]]
    return f"| {loss} | {' | '.join(cells)} |"


def main() -> None:
    """Measure and print the rows of the page."""
    asked = arguments(__doc__ or "", list(LOSSES))
    logging.getLogger("similis").setLevel(logging.WARNING)
    found = known_rows(asked.json) | {"planted": {str(seed): write_ways(seed) for seed in range(REPETITIONS)}}
    for loss in [asked.only] if asked.only else LOSSES:
        found[loss] = measure(loss)
        print(page_row(loss, found[loss]), flush=True)
        write_json(asked.json, "python -m benchmarks.cleaning", found)


if __name__ == "__main__":
    main()
