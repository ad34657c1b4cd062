"""Suspicions about a data set on paper: a CSV file that ``similis train --exclude`` reads, and contact sheets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from similis.data.images import prepare
from similis.data.manifest import Manifest
from similis.figures.canvas import save_figure
from similis.figures.contact_sheet import Tile, draw_sheet
from similis.model.faults import Fault
from similis.training.files import write_table

FILE, COLUMNS = "suspects.csv", ("kind", "score", "path", "label", "other", "reason", "exclude")
SIDE, ACROSS, SHOWN = 112, 8, 40  # pixels of an image on a sheet, images of a row, faults of a sheet
HEADINGS = {
    "leak": "pairs: in train, then in test",
    "near-duplicate": "pairs: two copies of one image",
    "label": "pairs: a doubted label, then the nearest image of the class that its neighbours have",
    "stranger": "similar to no class",
    "alike-classes": "pairs: two classes that look the same",
}


def write_faults(faults: Sequence[Fault], folder: Path, data: Manifest, *, pictures: bool = True) -> list[Path]:
    """Write the list, and a contact sheet of the most certain faults of each kind; returns the files."""
    lines = [(f.kind, f.score, f.path, f.label, f.other, f.reason, "yes" if f.exclude else "no") for f in faults]
    write_table(folder / FILE, [COLUMNS, *lines])
    written, names = [folder / FILE], data.values("class_name")
    for kind in dict.fromkeys(fault.kind for fault in faults) if pictures else ():
        held = [fault for fault in faults if fault.kind == kind]
        tiles = [tile for fault in held[:SHOWN] for tile in tiles_of(fault, data, names)]
        rows = [tiles[start : start + ACROSS] for start in range(0, len(tiles), ACROSS)]
        sheet = draw_sheet(rows, side=SIDE, title=HEADINGS[kind])
        written.append(save_figure(sheet, folder / f"{kind}.png"))
    return written


def tiles_of(fault: Fault, data: Manifest, names: Sequence[str]) -> list[Tile]:
    """The image with its class, and the other one if there is one."""
    rows = [row for row in (fault.row, fault.other_row) if row >= 0]
    captions = [f"{fault.score:.3f}\n{names[fault.row]}", *(f"\n{names[row]}" for row in rows[1:])]
    images = [prepare(data.read_bytes(row), resize=SIDE) for row in rows]
    return [Tile(image, caption) for image, caption in zip(images, captions, strict=True)]


def count_kinds(faults: Sequence[Fault]) -> dict[str, tuple[int, int]]:
    """Kind -> how many were found, and how many of them are to be excluded."""
    excluded = Counter(fault.kind for fault in faults if fault.exclude)
    return {kind: (number, excluded[kind]) for kind, number in Counter(fault.kind for fault in faults).items()}
