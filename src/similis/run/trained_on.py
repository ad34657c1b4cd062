"""What a model was trained on, by contents and class names, so that none of it is measured as unseen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from similis.data.manifest import Manifest
from similis.retrieval.gallery import Entry
from similis.run.bundle_files import TRAINED, check_kind, read_shapes
from similis.training.files import damage_error
from similis.training.tensors import read_tensors, save_tensors
from similis.values import DataError

CONTENTS = "similis-trained-on-1"
HALF = 0.5  # of the images of a class: from there on the class is one that trained the model, whatever its name


class TrainedOn(NamedTuple):
    """Hashes of the images, and names of the classes, that a model was trained or selected on."""

    contents: frozenset[str]
    classes: frozenset[str]

    def seen(self, entries: Sequence[Entry]) -> Seen:
        """Which images, and which of their classes, have trained the model."""
        known = [entry.digest in self.contents for entry in entries]
        by_class: dict[str | None, list[bool]] = {}
        for entry, is_known in zip(entries, known, strict=True):
            by_class.setdefault(entry.label, []).append(is_known)
        names = {
            name
            for name, found in by_class.items()
            if name is not None and (name in self.classes or sum(found) >= HALF * len(found))
        }
        return Seen([own or entry.label in names for own, entry in zip(known, entries, strict=True)], frozenset(names))


class Seen(NamedTuple):
    """Whether each image is of a class that trained the model, or itself did; and the names of these classes."""

    images: list[bool]
    classes: frozenset[str]


def trained_part(data: Manifest) -> TrainedOn:
    """The record of training on all of these images."""
    contents = data.values("content") if data.has("content") else []
    return TrainedOn(frozenset(contents), frozenset(data.values("class_name")))


def write_trained_on(folder: Path, found: TrainedOn) -> None:
    """Keep a record with a run or a saved model."""
    digests = b"".join(bytes.fromhex(digest) for digest in sorted(found.contents))
    names = json.dumps(sorted(found.classes)).encode()
    tensors = {name: torch.frombuffer(bytearray(data) or bytearray(1), dtype=torch.uint8)
               for name, data in (("contents", digests), ("classes", names))}  # fmt: skip
    save_tensors(folder / TRAINED, tensors, {"contents": CONTENTS})


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
