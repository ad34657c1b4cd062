"""Classes that trained a model, left out where it is measured on unseen ones."""

from __future__ import annotations

from pathlib import Path

from similis.model.bundle_files import read_lists
from similis.run.trained_on import CONTENTS, TRAINED, TrainedOn, parse_trained_on
from similis.values import DataError


def read_trained_on(folder: Path) -> TrainedOn | None:
    """The record in the folder of a run or a saved model; None where an earlier version wrote none."""
    file = folder / TRAINED
    if not file.exists():
        return None
    return parse_trained_on(file, read_lists(file, CONTENTS, {"contents": "U8", "classes": "U8"}))


def say_seen(number: int, kept: bool) -> str:
    """How a table says that classes trained the model; nothing for none."""
    if not number:
        return ""
    words = "1 class that trained the model is" if number == 1 else f"{number:,} classes that trained the model are"
    return f"; {words} {'among them, so figures are too good' if kept else 'left out (--keep-trained keeps them)'}"


def check_left(left: int, number: int, what: str) -> None:
    """Raise where the classes that trained a model are all that there is."""
    if number and not left:
        raise DataError(
            f"all {number} classes of {what} trained the model, so they say nothing about unseen ones; give other "
            "photos, or measure these with --keep-trained"
        )
