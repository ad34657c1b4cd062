"""Pictures of a run, and photos for a contact sheet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from similis.data.images import prepare
from similis.data.manifest import Manifest
from similis.figures import learning_curves
from similis.figures.contact_sheet import Pixels
from similis.run.result import RunResult
from similis.training.files import replace_file
from similis.training.folder import RunFolder
from similis.values import UserError

SIDE = 112
PNG_END = b"IEND\xaeB`\x82"


def draw_curves(result: RunResult) -> Path:
    """Write ``curves.png``, loss of all stages and recall of the classes that chose, unless it is there."""
    path = result.folder / "curves.png"
    if not is_whole(path):
        words = {"validation": "validation classes", "test": "test classes"}.get(result.selected_on, "")
        name = f"{result.spec.objective.loss} on {Path(result.spec.data.source).name}"
        curves = learning_curves.read_curves(RunFolder(result.folder).records())
        write_picture(learning_curves.draw_curves(curves, chosen=result.epochs, measured_on=words, title=name), path)
    return path


def thumbnail(manifest: Manifest, row: int) -> Pixels:
    """A small picture of a row, of its own shape."""
    return prepare(manifest.read_bytes(row), resize=SIDE)


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
