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
WORDS = {  # kind -> heading of its sheet, words below an image or a pair
    "leak": ("one image in train and in test", "train: {label}\ntest: {other}"),
    "near-duplicate": ("two copies of one image", "labelled {label}\nand {other}"),
    "label": (
        "labels that are probably wrong, each with the nearest image of the class that speaks against it",
        "labelled {label},\nlooks like {other}",
    ),
    "stranger": ("similar to no class", "labelled {label},\n{score:.1f} deviations off"),
    "alike-classes": ("two classes that look the same", "{label}\nand {other}"),
}


def write_faults(faults: Sequence[Fault], folder: Path, data: Manifest, *, pictures: bool = True) -> list[Path]:
    """Write the list, and a contact sheet of the most certain faults of each kind; returns the files."""
    lines = [(f.kind, f.score, f.path, f.label, f.other, f.reason, "yes" if f.exclude else "no") for f in faults]
    write_table(folder / FILE, [COLUMNS, *lines])
    written, names = [folder / FILE], data.values("class_name")
    for kind in dict.fromkeys(fault.kind for fault in faults) if pictures else ():
        held = [fault for fault in faults if fault.kind == kind]
        tiles = [tile_of(fault, data, names) for fault in held[:SHOWN]]
        across = ACROSS // (1 + len(tiles[0].beside))
        rows = [tiles[start : start + across] for start in range(0, len(tiles), across)]
        sheet = draw_sheet(rows, side=SIDE, title=sheet_title(held), queries=False)
        written.append(save_figure(sheet, folder / f"{kind}.png"))
    return written


def sheet_title(faults: Sequence[Fault]) -> str:
    """What a sheet of faults of one kind shows, how many of them, and what red means."""
    number = f"the {SHOWN} most certain of {len(faults):,} shown" if len(faults) > SHOWN else f"{len(faults)} found"
    excluded = "; red: listed to be excluded" * any(fault.exclude for fault in faults[:SHOWN])
    return f"{WORDS[faults[0].kind][0]} ({number}{excluded})"


def tile_of(fault: Fault, data: Manifest, names: Sequence[str]) -> Tile:
    """The image, the other one beside it if there is one, and words about both."""
    rows = [row for row in (fault.row, fault.other_row) if row >= 0]
    caption = WORDS[fault.kind][1].format(label=fault.label, other=names[rows[-1]], score=fault.score)
    first, *beside = (prepare(data.read_bytes(row), resize=SIDE) for row in rows)
    return Tile(first, caption, False if fault.exclude else None, beside)


def count_kinds(faults: Sequence[Fault]) -> dict[str, tuple[int, int]]:
    """Kind -> how many were found, and how many of them are to be excluded."""
    excluded = Counter(fault.kind for fault in faults if fault.exclude)
    return {kind: (number, excluded[kind]) for kind, number in Counter(fault.kind for fault in faults).items()}
