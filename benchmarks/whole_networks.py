"""Three losses on whole networks beside the thesis: ``python -m benchmarks.whole_networks [--only ROW] [--json FILE]``.

CARS196 at 160 pixels, the recipe of ``results/fine-tuning.md``: EfficientNet-lite0 without a head, three epochs,
batches of 60. Each loss has two trials, one of each rate, on validation classes; the test classes stay closed. The
better rate trains three seeds, refitted on all training classes, each tested once, as it is and with whitening on top.
The shrinkage is chosen on the validation classes, which the refitted network has seen (as ``Model.fit_metric`` does).
Runs below ``runs/whole-networks`` go on where they were stopped; the record is ``results/whole-networks.json``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from benchmarks.lite_weights import weights
from benchmarks.rounds import arguments, known_rows, write_json
from similis.model.finished import trained_model
from similis.retrieval.embed import embed
from similis.run.frozen_backbone import fit_split
from similis.run.machine import Machine
from similis.run.parts import build_loader, open_source
from similis.run.result import RunResult
from similis.run.run import run
from similis.run.spec import RunSpec, parse_spec
from similis.run.untouched import evaluate_embedded
from similis.sphere import unit
from similis.values import Embedded

LOSSES = ("proxy_anchor", "multi_similarity", "proxy_repulsion")  # the last is the thesis' own
RATES, SEEDS = (1e-4, 3e-4), (0, 1, 2)
METRICS = ("recall@1", "map@r")


def spec_of(loss: str, rate: float, seed: int, *, final: bool) -> RunSpec:
    """A trial, which keeps the test classes closed, or a final run."""
    return parse_spec({
        "data": {"source": "cars196", "allow_counts": True, "validation_share": 0.2},
        "model": {"weights": weights(), "image_size": 160, "resize": 160, "dim": None},
        "objective": {"loss": loss, "preset": "thesis"}, "seed": seed,
        "training": {"epochs": 3, "batch_size": 60, "lr": rate, "refit": final},
        "evaluation": {"ks": [1, 2, 4, 8], "untouched": False, "test": final},
    })  # fmt: skip


def best_rate(loss: str, found: dict[str, Any]) -> float | None:
    """The rate with the better validation R@1; None before both trials are done."""
    values = {rate: found.get(f"{loss} trial {rate:g}", {}).get("validation") for rate in RATES}
    return None if None in values.values() else max(values, key=lambda rate: values[rate])


def measure(name: str, found: dict[str, Any], machine: Machine) -> dict[str, Any]:
    """One row: a trial of a loss and a rate, or a final run of a loss and a seed."""
    loss, kind, number = name.split(" ")
    if kind == "trial":
        result = run(spec_of(loss, float(number), 0, final=False), machine)
        return {"validation": result.validation["recall@1"], "epochs": result.epochs, "address": result.address}
    rate = best_rate(loss, found)
    if rate is None:
        raise SystemExit(f"{name} waits for the trials of {loss}; run them first")
    result = run(spec_of(loss, rate, int(number), final=True), machine)
    row = {"rate": rate, "epochs": result.epochs, "address": result.address}
    return row | {metric: result.test[metric] for metric in METRICS} | {"whitened": whitened(result, machine)}


def whitened(result: RunResult, machine: Machine) -> dict[str, float]:
    """Scores of the trained network with whitening on top, its shrinkage chosen on the validation classes."""
    source, model = open_source(result.spec, machine), trained_model(result, machine)
    rows = torch.arange(len(source.manifest))
    batches = build_loader(model, source, result.spec, machine).ordered(rows, batch_size=64)
    features = embed(model.eval().cacheable_features, batches, count=len(rows)).vectors
    fitted = fit_split("whitening", features, source.manifest.labels, source.split, 512)
    test = source.split.test
    vectors = Embedded(unit(fitted.map(features[test])), source.manifest.labels[test], test)
    means = evaluate_embedded(vectors, machine, source).means
    return {metric: means[metric] for metric in METRICS} | {"shrinkage": fitted.shrinkage}


def main() -> None:
    """Run what is missing or asked for, write the record row by row."""
    jobs = [f"{loss} trial {rate:g}" for rate in RATES for loss in LOSSES]
    jobs += [f"{loss} seed {seed}" for seed in SEEDS for loss in LOSSES]
    asked = arguments(__doc__ or "", jobs)
    machine, found = Machine(root=Path("runs/whole-networks"), device="cpu"), known_rows(asked.json)
    for name in [asked.only] if asked.only else [job for job in jobs if job not in found]:
        found[name] = measure(name, found, machine)
        print(name, found[name], flush=True)
        write_json(asked.json, "python -m benchmarks.whole_networks", found)


if __name__ == "__main__":
    main()
