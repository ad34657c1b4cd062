"""What a model was trained on, by contents and class names, so that none of it is measured as unseen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from pydantic import TypeAdapter

from similis.data.manifest import Manifest
from similis.retrieval.gallery import Entry
from similis.training.files import damage_error
from similis.training.tensors import read_tensors, save_tensors

TRAINED, CONTENTS = "trained-on.safetensors", "similis-trained-on-1"
HALF = 0.5  # of the images of a class: from there on the class is one that trained the model, whatever its name


class TrainedOn(NamedTuple):
    """Hashes of the images, and names of the classes, that a model was trained or selected on."""

    contents: frozenset[str]
    classes: frozenset[str]

    def join(self, other: TrainedOn | None) -> TrainedOn:
        """What either was trained on."""
        return self if other is None else TrainedOn(self.contents | other.contents, self.classes | other.classes)

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
    tensors = read_tensors(file, CONTENTS)[0]
    try:
        digests = tensors["contents"].numpy().tobytes()
        names = TypeAdapter(list[str]).validate_json(tensors["classes"].numpy().tobytes())
    except (KeyError, TypeError, ValueError) as error:
        raise damage_error(file, error) from error
    starts = range(0, len(digests) - 15, 16)
    return TrainedOn(frozenset(digests[start : start + 16].hex() for start in starts), frozenset(names))
