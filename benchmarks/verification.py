"""Does a threshold keep its promise on other classes? ``python -m benchmarks.verification [--json FILE]``.

The untouched EfficientNet-lite0 (pooled features) embeds the test classes of CARS (160 pixels) and CUB (224), and all
classes of Grocery (160). Half of the classes of CARS, and half of those of CUB, choose the threshold of FAR 0.01; the
other half and the other two data sets show the FAR that it has there. The halves are drawn ``SPLITS`` times.

``SIMILIS_DATA`` names the folder of photos and weights. Embeddings are kept below ``--cache`` and made once, in about a
quarter of an hour on one core.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.fixed_threshold import rates_at
from benchmarks.lite_weights import weights
from benchmarks.rounds import write_json
from similis.data.open_data import open_data
from similis.figures.canvas import save_figure
from similis.figures.verification_plot import draw_verification
from similis.networks.embedder import build_embedder
from similis.retrieval.embed import embed
from similis.retrieval.verification import verify
from similis.run.machine import Machine
from similis.run.parts import images_for
from similis.training.tensors import cached_tensors
from similis.values import Embedded

FAR, SPLITS = 1e-2, 10
SIZES = {"cars196": 160, "cub200_2011": 224, "grocery": 160}
CHOOSERS = ("cars196", "cub200_2011")


def embedded(name: str, cache: Path) -> Embedded:
    """Features of the test classes (all classes where no split is stated), from the cache if they are there."""
    size = SIZES[name]

    def make() -> dict[str, torch.Tensor]:
        manifest = open_data(name, allow_counts=True)
        manifest = manifest.select([row for row, part in enumerate(manifest.parts) if part != "train"])
        model = build_embedder(
            backbone="tf_efficientnet_lite0", weights=weights(), dim=0, pooling="gap", image_size=size
        ).eval()
        assert model.preprocessing is not None
        model.backbone.preprocessing = replace(model.preprocessing, resize=size)
        machine = Machine(device="cpu", cache_bytes=0)
        loader = images_for(model, manifest, machine, policies=("eval",))
        batches = loader.ordered(torch.arange(len(manifest)), batch_size=64)
        return {"vectors": embed(model, batches, count=len(manifest)).vectors, "labels": manifest.labels}

    metadata = {"format": "similis-verification-1", "contents": f"{name}-{size}"}
    kept = cached_tensors(cache / f"{name}-{size}.safetensors", make, metadata)
    return Embedded(kept["vectors"], kept["labels"], torch.arange(len(kept["labels"])))


def halves(whole: Embedded, seed: int) -> tuple[Embedded, Embedded]:
    """The images of a random half of the classes, and the others."""
    classes = torch.unique(whole.labels)
    order = torch.randperm(len(classes), generator=torch.Generator().manual_seed(seed))
    first = torch.isin(whole.labels, classes[order[: len(classes) // 2]])
    return Embedded(*(part[first] for part in whole)), Embedded(*(part[~first] for part in whole))


def promised(whole: Embedded, others: dict[str, Embedded]) -> list[dict[str, float]]:
    """For each division: the threshold, and the rates that it has on the other half and on other data."""
    found = []
    for seed in range(SPLITS):
        chooses, shows = halves(whole, seed)
        threshold = verify(chooses, far=FAR, fars=()).threshold[FAR]
        far, tar = rates_at(shows, threshold.value)
        row = {"threshold": threshold.value, "far": far.value, "low": far.low, "high": far.high, "tar": tar.value}
        for name, other in others.items() if seed == 0 else ():
            there = rates_at(other, threshold.value)[0]
            row |= {f"{name} far": there.value, f"{name} low": there.low, f"{name} high": there.high}
        found.append(row)
    return found


def main() -> None:
    """Measure, print, draw the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("vectors"))
    parser.add_argument("--figures", type=Path)
    asked = parser.parse_args()
    sets = {name: embedded(name, asked.cache) for name in SIZES}
    figures: dict[str, dict[str, float]] = {}
    for name, one in sets.items():
        found = verify(one, far=FAR)
        figures[name] = {"eer": found.eer.value, "eer low": found.eer.low, "eer high": found.eer.high}
        figures[name] |= {"opis": found.opis, "threshold": found.threshold[FAR].value}
        for far, tar in found.tar.items():
            figures[name] |= {f"tar@{far:g}": tar.value, f"tar@{far:g} low": tar.low, f"tar@{far:g} high": tar.high}
        if asked.figures is not None:
            title = f"{name}, {SIZES[name]} pixels, EfficientNet-lite0 untouched: {len(found.classes)} classes"
            save_figure(draw_verification(found, title), asked.figures / f"{name}.png")
    for name in CHOOSERS:
        rows = promised(sets[name], {other: one for other, one in sets.items() if other != name})
        held = sum(row["low"] <= FAR <= row["high"] for row in rows)
        figures[f"{name} promise"] = {"held": held, "divisions": SPLITS, **rows[0]}
        figures[f"{name} promise"]["mean far"] = sum(row["far"] for row in rows) / SPLITS
    print(json.dumps(figures, indent=1))
    write_json(asked.json, "python -m benchmarks.verification", figures)


if __name__ == "__main__":
    main()
