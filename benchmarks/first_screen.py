"""The picture of README: ``python -m benchmarks.first_screen [--json FILE] [--picture FILE]``.

Neighbours of photos of car models that training has not seen, before and after fine-tuning: the network and the run of
``python -m benchmarks.fine_tuning --only "cars196 whole network 0"``, which this command makes if it is not there. A
query is fixed if its nearest photo was of another model before and is of its own after training, and broken the other
way round. The picture shows three queries of different models, drawn at random among the fixed ones; both numbers
stand beside it. ``SIMILIS_DATA`` names the folder of photos and weights.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from benchmarks.fine_tuning import spec_of
from benchmarks.rounds import write_json
from similis.data.images import prepare
from similis.data.manifest import Manifest
from similis.run.evaluation import judge_of
from similis.run.machine import Machine
from similis.run.network import pixels_of
from similis.run.parts import open_source
from similis.run.run import run
from similis.run.untouched import embed_rows, untouched_networks

QUERIES, SHOWN = 3, 4
SIDE, GAP, FRAME, HEAD = 128, 10, 5, 54
RIGHT, WRONG, INK = (26, 127, 55), (207, 34, 46), (31, 35, 40)


def neighbours_before(spec: Any, machine: Machine, source: Any) -> Tensor:
    """(Q, 8) nearest test photos of each query by the pretrained network at the run's resolution."""
    network = untouched_networks(spec, machine)[-1]
    assert pixels_of(network) == spec.model.image_size
    found = embed_rows(network, spec, machine, source, source.split.test)
    near: Tensor = judge_of(found, source.manifest)(found, ks=(1,)).neighbors.index
    return found.ids[near]


def choose_queries(labels: Tensor, ids: Tensor, fixed: Tensor) -> list[int]:
    """Queries of different classes, drawn at random among the fixed ones."""
    rows = fixed.nonzero().flatten()
    chosen: dict[int, int] = {}
    for query in rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))].tolist():
        chosen.setdefault(int(labels[ids[query]]), query)
    return list(chosen.values())[:QUERIES]


def tile(manifest: Manifest, row: int, colour: tuple[int, int, int] | None) -> Image.Image:
    """A photo, cut square, in a frame."""
    pixels = Image.fromarray(prepare(manifest.read_bytes(row), resize=SIDE))
    left, top = (pixels.width - SIDE) // 2, (pixels.height - SIDE) // 2
    whole = Image.new("RGB", (SIDE + 2 * FRAME,) * 2, colour or "white")
    whole.paste(pixels.crop((left, top, left + SIDE, top + SIDE)), (FRAME, FRAME))
    return whole


def draw(manifest: Manifest, rows: list[tuple[int, list[int], list[int]]]) -> Image.Image:
    """A line for each query: the photo, its neighbours before, its neighbours after."""
    labels, step = manifest.labels, SIDE + 2 * FRAME + GAP
    starts = [GAP, GAP + step + 3 * GAP, GAP + step + 6 * GAP + SHOWN * step]
    sheet = Image.new("RGB", (starts[2] + SHOWN * step, HEAD + len(rows) * step + GAP), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(34)
    for start, words in zip(starts, ("query", "before training", "after training"), strict=True):
        pen.text((start, 4), words, fill=INK, font=font)
    for line, (query, before, after) in enumerate(rows):
        top = HEAD + line * step
        sheet.paste(tile(manifest, query, None), (starts[0], top))
        for start, near in zip(starts[1:], (before, after), strict=True):
            for place, row in enumerate(near[:SHOWN]):
                colour = RIGHT if labels[row] == labels[query] else WRONG
                sheet.paste(tile(manifest, row, colour), (start + place * step, top))
    return sheet


def main() -> None:
    """Train unless it is done, count, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=None, help="also write the figures to this file")
    parser.add_argument("--picture", type=Path, default=Path("runs/first-screen.jpg"))
    asked = parser.parse_args()
    spec, machine = spec_of("cars196", "whole network", 0), Machine(root=Path("runs/fine-tuning"), device="cpu")
    result, source = run(spec, machine), open_source(spec, machine)
    before, scores, labels = neighbours_before(spec, machine, source), result.scores(), source.manifest.labels
    ids, after = scores["ids"], scores["neighbors"]
    hits = [labels[near[:, 0]] == labels[ids] for near in (before, after)]
    fixed, broken = ~hits[0] & hits[1], hits[0] & ~hits[1]
    chosen = choose_queries(labels, ids, fixed)
    sheet = draw(source.manifest, [(int(ids[q]), before[q].tolist(), after[q].tolist()) for q in chosen])
    held = io.BytesIO()
    sheet.save(held, "JPEG", quality=85)
    asked.picture.write_bytes(held.getvalue())
    found = {
        "queries": len(ids), "classes": len(labels[ids].unique()),
        "fixed": int(fixed.sum()), "broken": int(broken.sum()),
        "pretrained": float(hits[0].double().mean()), "trained": float(hits[1].double().mean()),
        "pixels": spec.model.image_size, "epochs": result.epochs, "address": result.address,
        "shown": [source.manifest.values("path")[int(ids[q])] for q in chosen],
    }  # fmt: skip
    print(found)
    write_json(asked.json, "python -m benchmarks.first_screen", found)


if __name__ == "__main__":
    main()
