"""The pictures that a run leaves in its folder: curves, a contact sheet, a map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from similis.data.images import prepare
from similis.data.manifest import Manifest
from similis.figures.contact_sheet import Pixels, Tile, draw_sheet
from similis.figures.embedding_map import draw_map
from similis.figures.learning_curves import draw_curves, read_curves
from similis.run.result import RunResult
from similis.training.files import replace_file
from similis.training.folder import RunFolder
from similis.values import UserError

ROWS, COLUMNS, SIDE = 10, 8, 112
PNG_END = b"IEND\xaeB`\x82"


def draw_pictures(result: RunResult, data: Manifest) -> list[Path]:
    """Write ``curves.png``, ``sheet.png`` and ``map.png`` as far as the run has what they show; not twice.

    Args:
        result: of a finished run.
        data: that it was trained on.
    """
    seen = result.facts["preprocessing"] is not None  # ready vectors have nothing to look at
    wanted = {"curves.png": bool(result.epochs), "sheet.png": bool(result.test) and seen, "map.png": bool(result.test)}
    paths = [result.folder / name for name, wish in wanted.items() if wish]
    drawers = {"curves.png": draw_run_curves, "sheet.png": draw_run_sheet, "map.png": draw_run_map}
    name = f"{result.spec.objective.loss} on {Path(result.spec.data.source).name}"
    for path in paths:
        if not is_whole(path):
            write_picture(drawers[path.name](result, data, name), path)
    return paths


def draw_run_curves(result: RunResult, _: Manifest, name: str) -> Any:
    """Loss of all stages, recall of the classes that chose."""
    words = {"validation": "validation classes", "test": "test classes"}.get(result.selected_on, "")
    curves = read_curves(RunFolder(result.folder).records())
    return draw_curves(curves, chosen=result.epochs, measured_on=words, title=name)


def draw_run_sheet(result: RunResult, manifest: Manifest, name: str) -> Any:
    """Queries spread evenly over the test images with their nearest neighbours."""
    scores = result.scores()
    labels, names = manifest.labels, manifest.values("class_name")
    chosen = torch.linspace(0, len(scores["ids"]) - 1, min(ROWS, len(scores["ids"]))).round().long()
    rows = []
    for query in chosen.tolist():
        own = int(scores["ids"][query])
        row = [Tile(thumbnail(manifest, own), str(names[own]))]
        near, alike = scores["neighbors"][query].tolist(), scores["similarity"][query].tolist()
        for other, similarity in zip(near[:COLUMNS], alike[:COLUMNS], strict=True):
            if similarity > float("-inf"):
                caption = f"{similarity:.3f}\n{names[other]}"
                row.append(Tile(thumbnail(manifest, other), caption, bool(labels[other] == labels[own])))
        rows.append(row)
    title = f"{name}: test queries (left) and their neighbours, R@1 {100 * result.test['recall@1']:.1f} %"
    return draw_sheet(rows, side=SIDE, title=title)


def draw_run_map(result: RunResult, manifest: Manifest, name: str) -> Any:
    """The test images in the plane."""
    found = result.embeddings()
    names = dict(zip(manifest.values("label"), manifest.values("class_name"), strict=True))
    title = f"{name}: test images, seen along two principal directions"
    return draw_map(found["vectors"], found["labels"], names=names, title=title)


def is_whole(path: Path) -> bool:
    """Whether a picture is there to its last byte."""
    return path.is_file() and path.read_bytes().endswith(PNG_END)


def write_picture(figure: Any, path: Path) -> None:
    """Write a picture that appears whole, in the format that its name ends with."""

    def draw(beside: Path) -> None:
        try:
            figure.savefig(beside, format=path.suffix[1:] or "png")
        except ValueError as error:
            raise UserError(f"{path} cannot be drawn: {error}") from error

    replace_file(path, draw)


def thumbnail(manifest: Manifest, row: int) -> Pixels:
    """A small picture of a row, of its own shape."""
    return prepare(manifest.read_bytes(row), resize=SIDE)
