"""Pictures of a run, and photos for a contact sheet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from similis.figures.learning_curves import TRAINED, draw_curves, read_curves
from similis.run.result import RunResult
from similis.run.untouched import best_before, name_before
from similis.training.files import replace_file
from similis.training.folder import RunFolder
from similis.values import UserError

SIDE = 112


def write_curves(result: RunResult) -> Path:
    """Write ``curves.png`` into the run folder, unless it is there."""
    path = result.folder / "curves.png"
    if not path.is_file():
        write_picture(draw_run_curves(result), path)
    return path


def draw_run_curves(result: RunResult) -> Any:
    """Loss of all stages, recall of the classes that chose; the pretrained network and the trained one on test."""
    words = {"validation": "validation classes", "test": "test classes"}.get(result.selected_on, "")
    curves = read_curves(RunFolder(result.folder).records())
    test = {}
    if result.before:
        row = best_before(result.before)
        test[name_before(row)] = row["recall@1"]
    if result.test and result.selected_on != "test":  # otherwise the curve is on these classes and ends there
        test[TRAINED] = result.test["recall@1"]
    name = f"{result.spec.objective.loss} on {Path(result.spec.data.source).name}"
    return draw_curves(curves, chosen=result.epochs, measured_on=words, title=name, test=test)


def write_picture(figure: Any, path: Path) -> None:
    """Write a picture that appears whole, in the format that its name ends with."""

    def draw(beside: Path) -> None:
        try:
            figure.savefig(beside, format=path.suffix[1:] or "png")
        except ValueError as error:
            raise UserError(f"{path} cannot be drawn: {error}") from error

    replace_file(path, draw)
