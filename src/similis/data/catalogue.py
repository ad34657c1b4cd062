"""Known data sets: where their files are, what their counts must be, and what happens when they differ."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from similis.data.manifest import Manifest
from similis.data.readers.archive import read_archive
from similis.registry import Entry, Registry
from similis.values import DataError

VARIABLE = "SIMILIS_DATA"


@dataclass(frozen=True)
class Counts:
    """Images and classes of one part of a data set."""

    images: int
    classes: int


@dataclass(frozen=True)
class DatasetEntry(Entry):
    """A known data set: its official counts by part (``train``, ``test``; ``all`` where it has no split)."""

    counts: dict[str, Counts]


known: Registry[DatasetEntry] = Registry("data set", "similis.data.datasets")
Opener = Callable[..., Manifest]


def register_dataset(*, paper: str, counts: dict[str, Counts]) -> Callable[[Opener], Opener]:
    """Register the decorated function as a data set under its own name, with its official counts by part."""
    return known.register(lambda function: DatasetEntry(function.__name__, function, paper, counts))


def place_of(root: str | None) -> Path:
    """The folder of the data sets: the one given, or the one that the environment names."""
    place = root or os.environ.get(VARIABLE)
    if not place:
        raise DataError(f"no folder of data sets given; set the environment variable {VARIABLE} to it, or pass root=")
    if not Path(place).is_dir():
        raise DataError(f"the folder of the data sets does not exist: {place!r} (from {VARIABLE} or root=)")
    return Path(place)


def archive_copy(name: str, root: str | None) -> Manifest | None:
    """The copy ``name.zip`` + ``name.tsv`` in the folder of the data sets, if it is there."""
    place = place_of(root)
    archive, table = place / f"{name}.zip", place / f"{name}.tsv"
    return read_archive(str(archive), table=str(table)) if archive.is_file() and table.is_file() else None


def find_folder(name: str, root: str | None, marker: str, folders: tuple[str, ...]) -> Path:
    """The folder of an original layout: the first candidate that holds the marker file."""
    for folder in folders:
        if (place_of(root) / folder / marker).exists():
            return place_of(root) / folder
    raise absent(name, root, *(f"{folder}/{marker}" for folder in folders))


def absent(name: str, root: str | None, *files: str) -> DataError:
    """The error about a data set of which none of these files, and no archive, is in the folder of the data sets."""
    wanted = ", ".join([f"{name}.zip with {name}.tsv", *files])
    return DataError(f"{name} is not in {str(place_of(root))!r}; put one of these there: {wanted}")


def count_parts(manifest: Manifest) -> dict[str, Counts]:
    """Images and classes of every part of a manifest."""
    found: dict[str, list[int]] = {}
    for part, label in zip(manifest.parts, manifest.values("label"), strict=True):
        found.setdefault(part, []).append(label)
    return {part: Counts(len(held), len(set(held))) for part, held in found.items()}


def check_counts(name: str, manifest: Manifest, expected: dict[str, Counts]) -> None:
    """Raise a DataError that names expected and found counts, if they differ."""
    found = count_parts(manifest)
    if not expected or found == expected:
        return
    lines = [
        f"{part}: expected {describe_counts(expected.get(part))}, found {describe_counts(found.get(part))}"
        for part in sorted({*expected, *found}, reverse=True)
        if expected.get(part) != found.get(part)
    ]
    raise DataError(
        f"{name} differs from the official data set; {'; '.join(lines)}. Numbers measured on it are not "
        "comparable with published ones; to use it anyway, pass allow_counts=True (--allow-counts)"
    )


def describe_counts(counts: Counts | None) -> str:
    """Counts in words."""
    return "nothing" if counts is None else f"{counts.images} images of {counts.classes} classes"
