"""Photos of Grocery products as class folders, for benchmarks that begin as a user does."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import torch

import similis
from similis.data.manifest import Manifest

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
