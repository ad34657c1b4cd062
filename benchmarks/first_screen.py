"""The first screen of README: ``python -m benchmarks.first_screen [--json FILE] [--picture FILE]``.

Writes 25 photos of each Grocery class (all where there are fewer) as class folders, runs the command of README on them,
and compares the trained network with the untouched one of the same resolution on the classes that training has not
seen. The picture shows three queries of different classes, drawn at random among those whose nearest photo was wrong
before training, with their neighbours before and after. ``SIMILIS_DATA`` names the folder of photos and weights;
everything is kept below ``runs/first-screen`` and goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import similis
from benchmarks.lite_weights import weights
from benchmarks.rounds import write_json
from similis.data.manifest import Manifest
from similis.figures.contact_sheet import Tile, draw_sheet
from similis.run.evaluation import judge_of
from similis.run.finished import finished
from similis.run.machine import Machine
from similis.run.parts import open_source
from similis.run.result import RunResult
from similis.run.untouched import COMPARED, embed_test, pixels_of, untouched_networks

PLACE = Path("runs/first-screen")
COMMAND = "similis train photos/"
QUERIES, SHOWN = 3, 5
PER_CLASS = 25  # of about 2,000 photos in all


def write_photos(folder: Path) -> None:
    """Grocery photos as class folders, drawn at random within each class."""
    grocery = similis.open_data("grocery", allow_counts=True)
    paths, names = grocery.values("path"), grocery.values("class_name")
    kept: Counter[str] = Counter()
    for row in torch.randperm(len(grocery), generator=torch.Generator().manual_seed(0)).tolist():
        kept[names[row]] += 1
        file = folder / names[row] / paths[row].replace("/", "-")
        if kept[names[row]] <= PER_CLASS and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(grocery.read_bytes(row))


def rows_outside(grocery: Manifest, folder: Path) -> dict[str, list[int]]:
    """Rows of the photos that :func:`write_photos` has left out of that folder, by product."""
    known, found = {path.name for path in folder.glob("*/*")}, defaultdict(list)
    for row, (name, path) in enumerate(zip(grocery.values("class_name"), grocery.values("path"), strict=True)):
        if path.replace("/", "-") not in known:
            found[name].append(row)
    return found


def train(place: Path) -> float:
    """Run the command of README there, with the weights from the file; returns the minutes of the first call."""
    words, note = [*COMMAND.split()[1:], "--weights", weights()], place / "minutes.txt"
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "from similis.cli import main; main()", *words], cwd=place, check=True)
    if not note.exists():  # a run that is done is shown at once
        note.write_text(str((time.perf_counter() - begun) / 60))
    return float(note.read_text())


def neighbours_before(result: RunResult, machine: Machine) -> Tensor:
    """(Q, 8) nearest test images of each query by the untouched network at the run's resolution."""
    source = open_source(result.spec, machine)
    network = untouched_networks(result.spec, machine)[-1]
    assert pixels_of(network) == result.spec.model.image_size
    found = embed_test(network, result.spec, machine, source)
    near: Tensor = judge_of(found, source.manifest)(found, ks=(1,), collapse_checks=False).neighbors.index
    return found.ids[near]


def choose_queries(labels: Tensor, ids: Tensor, before: Tensor) -> list[int]:
    """Queries of different classes, drawn among those whose nearest image was of another class before training."""
    wrong = (labels[ids] != labels[before[:, 0]]).nonzero().flatten()
    order = wrong[torch.randperm(len(wrong), generator=torch.Generator().manual_seed(0))]
    chosen: dict[int, int] = {}
    for query in order.tolist():
        chosen.setdefault(int(labels[ids[query]]), query)
    return list(chosen.values())[:QUERIES]


def draw(result: RunResult, before: Tensor, manifest: Manifest, path: Path) -> None:
    """Queries with their neighbours before and after."""
    from similis.cli.train_pictures import thumbnail, write_picture

    scores, labels, names = result.scores(), manifest.labels, manifest.values("class_name")
    rows = []
    for query in choose_queries(labels, scores["ids"], before):
        own = int(scores["ids"][query])
        for title, near in (("before", before[query]), ("after", scores["neighbors"][query])):
            row = [Tile(thumbnail(manifest, own), f"{title}\n{names[own]}")]
            others = [int(other) for other in near[:SHOWN]]
            row += [Tile(thumbnail(manifest, n), str(names[n]), bool(labels[n] == labels[own])) for n in others]
            rows.append(row)
    write_picture(draw_sheet(rows, side=84), path)


def measure(result: RunResult, minutes: float) -> dict[str, Any]:
    """What the table of README shows."""
    return {
        "command": COMMAND,
        "images": result.facts["images"],
        "pixels": result.spec.model.image_size,
        "untouched": {str(row["pixels"]): row for row in result.before},
        "trained": {name: result.test[name] for name in COMPARED},
        "minutes": round(minutes, 1),
        "cores": len(os.sched_getaffinity(0)),
        "batch": result.spec.training.batch_size,
        "share": result.facts.get("share", 1.0),
        "epochs": result.epochs,
    }


def readme_rows(found: dict[str, Any]) -> list[str]:
    """The rows of the table of README."""
    rows = []
    for pixels, before in found["untouched"].items():
        cells = [f"untouched, {pixels} pixels"]
        for name in COMPARED:
            gain, low, high = (100 * part for part in before["gain"][name])
            cells += [f"{100 * before[name]:.1f} %", f"{gain:+.1f} ({low:+.1f} to {high:+.1f})"]
        rows.append(f"| {' | '.join(cells)} |")
    own = " |  | ".join(f"**{100 * found['trained'][name]:.1f} %**" for name in COMPARED)
    return [*rows, f"| **trained, {found['pixels']} pixels** | {own} |  |"]


def main() -> None:
    """Photos, training, table, picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=None, help="also write the figures to this file")
    parser.add_argument("--picture", type=Path, default=PLACE / "first-screen.jpg")
    asked = parser.parse_args()
    write_photos(PLACE / "photos")
    minutes = train(PLACE)
    result, machine = finished(PLACE / "runs"), Machine(root=PLACE / "runs", device="cpu")
    before = neighbours_before(result, machine)
    draw(result, before, open_source(result.spec, machine).manifest, asked.picture)
    found = measure(result, minutes)
    print("\n".join([COMMAND, *readme_rows(found)]))
    write_json(asked.json, "python -m benchmarks.first_screen", found)


if __name__ == "__main__":
    main()
