"""Is the estimate of an upgrade right? ``python -m benchmarks.upgrades STEP``.

Steps: ``train`` (lite0 fine-tuned at 112 pixels), ``embed`` (test images of CARS196, CUB and Grocery by
every model; vectors are reduced to 256 principal directions), ``estimate`` (for each pair of models twenty samples of
4,000 items, or two thirds of them if that is less, beside the truth over all items), which writes
``results/second-day.json``. ``SIMILIS_DATA`` names the folder of photos and weights; the weights of lite1 are made by
``benchmarks/lite_weights.py``. Files below ``runs/upgrades`` are used again.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.lite_weights import weights
from benchmarks.rounds import known_rows, write_json
from similis.data.open_data import open_data
from similis.data.splits import split_data
from similis.model.load import load, pretrained
from similis.retrieval.spaces.estimate import SHARES, advise, around, estimate, measure, search_old
from similis.retrieval.spaces.space_map import fit_map
from similis.run.machine import Machine
from similis.run.run import run
from similis.run.spec import parse_spec
from similis.sphere import unit
from similis.training.closed_form import fit_pca
from similis.training.tensors import cached_tensors

FOLDER, RECORD = Path("runs/upgrades"), Path("results/second-day.json")
EPOCHS = {"cars196": 3, "cub200_2011": 1, "grocery": 1}
DATA = tuple(EPOCHS)
PAIRS = [(data, "lite0", after) for after in ("tuned", "lite1") for data in DATA]
PAIRS += [("cars196", "tuned", "lite0"), ("cub200_2011", "lite0", "small")]  # the new model is worse
SIDE, DIM, SAMPLE, REPETITIONS = 112, 256, 4000, 20
FIRST = 100  # seed: the rule of the advice was changed after samples of 2,500 items with the seeds 0 to 19


def open_test(data: str) -> Any:
    """The test images of a data set."""
    manifest = open_data(data, root=os.environ["SIMILIS_DATA"], allow_counts=True)
    return manifest.select(split_data(manifest).test)


def tuned(data: str) -> Any:
    """Lite0 fine-tuned on the training classes."""
    values = {
        "data": {"source": data, "allow_counts": True},
        "model": {"weights": weights(), "image_size": SIDE, "dim": None},
        "objective": {"loss": "multi_similarity"},
        "training": {"epochs": EPOCHS[data], "batch_size": 60, "lr": 1e-4, "refit": False, "select": "last"},
        "evaluation": {"ks": [1], "untouched": False, "test": False},
    }
    machine = Machine(root=FOLDER / "runs", data_root=os.environ["SIMILIS_DATA"], workers=1)
    return load(run(parse_spec(values), machine).folder)


def open_model(name: str, data: str) -> Any:
    """One of the models of the pairs."""
    if name == "tuned":
        return tuned(data)
    network, size = ("lite0", 48) if name == "small" else (name, SIDE)
    return pretrained(f"tf_efficientnet_{network}", weights=weights(network), size=size)


def vectors_of(name: str, data: str) -> tuple[Tensor, Tensor]:
    """Leading principal coordinates of the test images' embeddings, and their labels."""

    def compute() -> dict[str, Tensor]:
        held = open_test(data)
        return {"vectors": open_model(name, data).encode(held), "labels": held.labels}

    kept = cached_tensors(FOLDER / f"{data}-{name}.safetensors", compute, {"contents": f"{data}-{name}"})
    vectors, labels = kept["vectors"], kept["labels"]
    return unit(fit_pca(vectors, labels).map(DIM)(vectors)), labels


def judge_pair(data: str, before: str, after: str) -> dict[str, Any]:
    """Twenty estimates from samples, and what all items say."""
    (old, labels), (new, _) = vectors_of(before, data), vectors_of(after, data)
    exact = [float(each.nanmean()) for each in measure(old, labels) + measure(new, labels)]
    rows, size = [], min(SAMPLE, 2 * len(labels) // 3)
    for seed in range(FIRST, FIRST + REPETITIONS):
        sample = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))[:size].sort().values
        found = estimate(old, labels, sample, new[sample], 0.5, seed=seed)
        others = torch.ones(len(labels), dtype=torch.bool)
        others[sample] = False
        rest = others.nonzero().flatten()
        fitted = fit_map(found.kind, new[sample], old[sample])
        through = search_old(old, labels, rest, fitted(new[rest]))[0] if len(rest) else torch.tensor([float("nan")])
        mapped = float(through.nanmean())
        truth = found._replace(gain=around(exact[2] - exact[0], 0), new=found.new._replace(recall=around(exact[2], 0)),
                               mapped=[found.mapped[-1]._replace(recall=around(mapped, 0))])  # fmt: skip
        rows.append({
            "kind": found.kind, "new": list(found.new.recall), "new map@r": list(found.new.map_r),
            "mapped": list(found.mapped[-1].recall), "mapped truth": mapped,
            "curve": [list(each.recall) for each in found.mapped],
            "advice": advise(found).partition(":")[0], "true advice": advise(truth).partition(":")[0],
        })  # fmt: skip
        print(data, before, after, seed, rows[-1], exact, flush=True)
    inside = sum(row["new"][1] <= exact[2] <= row["new"][2] for row in rows)
    return {
        "items": len(labels), "sample": size, "old recall@1": exact[0], "old map@r": exact[1],
        "new recall@1": exact[2], "new map@r": exact[3], "repetitions": rows, "inside": inside,
        "inside mapped": sum(row["mapped"][1] <= row["mapped truth"] <= row["mapped"][2] for row in rows),
        "half-width": sum(row["new"][2] - row["new"][1] for row in rows) / 2 / len(rows),
        "same advice": sum(row["advice"] == row["true advice"] for row in rows),
    }  # fmt: skip


def page_rows(figures: dict[str, dict[str, Any]]) -> list[str]:
    """The record as lines of two tables and of that of the kills."""
    lines, curves = [], []
    for name, row in figures.items():
        if name == "kills":
            lines += [f"| {key} | {value:,.0f} |" for key, value in row.items() if not isinstance(value, list)]
            continue
        found, count = row["repetitions"], len(row["repetitions"])
        means = [100 * float(np.mean([each["new"][0] for each in found])), 100 * row["half-width"]]
        lines.append(
            f"| {name} | {row['sample']:,} of {row['items']:,} | {100 * row['old recall@1']:.1f} | "
            f"{100 * row['new recall@1']:.1f} | {means[0]:.1f} ± {means[1]:.1f} | {row['inside']} of {count} | "
            f"{row['inside mapped']} | {row['same advice']} |"
        )
        shares = [100 * float(np.mean([each["curve"][place][0] for each in found])) for place in range(len(SHARES))]
        curves.append(f"| {name} | {' | '.join(f'{share:.1f}' for share in shares)} |")
    return lines + curves


def main() -> None:
    """Run a step."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("step", choices=("train", "embed", "estimate"))
    given = reader.parse_args()
    if given.step == "train":
        for data in DATA:
            print(tuned(data), flush=True)
    elif given.step == "embed":
        for data, *names in PAIRS:
            for name in names:
                print(data, name, tuple(vectors_of(name, data)[0].shape), flush=True)
    else:
        kept = known_rows(RECORD)
        for data, before, after in PAIRS:
            name = f"{data}: {before} to {after}"
            if name not in kept:
                kept[name] = judge_pair(data, before, after)
                write_json(RECORD, "python -m benchmarks.upgrades estimate", kept)


if __name__ == "__main__":
    main()
