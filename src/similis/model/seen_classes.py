"""Classes that trained a model, left out where it is measured on unseen ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from similis.model.bundle_files import check_kind, read_shapes
from similis.run.trained_on import CONTENTS, TRAINED, TrainedOn
from similis.training.files import damage_error
from similis.training.tensors import read_tensors
from similis.values import DataError


def read_trained_on(folder: Path) -> TrainedOn | None:
    """The record in the folder of a run or a saved model; None where an earlier version wrote none."""
    file = folder / TRAINED
    if not file.exists():
        return None
    check_kind(file)
    if {name: (kind, len(shape)) for name, (kind, shape) in read_shapes(file).items()} != {
        "contents": ("U8", 1), "classes": ("U8", 1)
    }:  # fmt: skip
        raise damage_error(file, "it does not hold hashes and class names")
    found = read_tensors(file, CONTENTS)[0]
    data = found["contents"].numpy()
    rows = data[: len(data) // 16 * 16].reshape(-1, 16)
    try:
        names = json.loads(found["classes"].numpy().tobytes())
    except ValueError as error:
        raise damage_error(file, error) from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise damage_error(file, "its class names are no list of texts")
    return TrainedOn(frozenset(np.asarray(row).tobytes().hex() for row in rows), frozenset(names))


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
