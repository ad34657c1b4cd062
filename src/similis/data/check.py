"""Checks of a data set before hours are spent on it: each finding says what to do."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from similis.data.catalogue import count_parts
from similis.data.images import prepare
from similis.data.manifest import Manifest
from similis.data.readers.folder import ENDINGS
from similis.data.splits import overlap_remedy
from similis.values import DataError

Kind = Literal["unreadable", "one-class", "tiny-class", "empty-class", "duplicate", "leak", "class-overlap"]
_SMALL = 32  # short side for the trial decode


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or may be.

    Attributes:
        kind: ``unreadable`` image or vector; ``one-class`` (nothing to compare with); ``tiny-class`` (fewer images
            than asked); ``empty-class`` (a folder without images); ``duplicate`` (same bytes, same part); ``leak``
            (same bytes in train and test); ``class-overlap`` (a class in train and test).
        severity: ``error`` makes training or its numbers wrong, ``warning`` is for you to judge.
        message: what was found.
        remedy: what to do.
        rows: the rows concerned.
    """

    kind: Kind
    severity: Literal["error", "warning"]
    message: str
    remedy: str
    rows: tuple[int, ...]


def check_data(manifest: Manifest, *, smallest_class: int = 2) -> list[Finding]:
    """Every finding about a data set; reads and decodes every image once.

    Args:
        manifest: what to check.
        smallest_class: classes with fewer images are reported; with one image there is no positive pair.

    Example:
        >>> from similis.data.open_data import open_data
        >>> check_data(open_data("synthetic?classes=4&images=3&size=16"))
        []
    """
    found = [*unreadable(manifest), *one_class(manifest), *tiny_classes(manifest, smallest_class)]
    return [*found, *empty_classes(manifest), *class_overlap(manifest), *duplicates(manifest)]


def unreadable(manifest: Manifest) -> list[Finding]:
    """Images that cannot be decoded, or vectors that cannot be used."""
    if manifest.has("vector"):
        try:
            _ = manifest.vectors
        except DataError as error:
            return [Finding("unreadable", "error", str(error), "correct the table", ())]
        return []
    found = []
    paths = manifest.values("path")
    for row in range(len(manifest)):
        try:
            prepare(manifest.read_bytes(row), resize=_SMALL)
        except DataError as error:
            message = f"{paths[row]!r}: {error}"
            found.append(Finding("unreadable", "error", message, "replace the file or remove it", (row,)))
    return found


def one_class(manifest: Manifest) -> list[Finding]:
    """Parts whose images are all of one class: nothing can be learned from them, and every answer is right."""
    found = []
    for part, counts in count_parts(manifest).items():
        if counts.classes == 1:
            rows = tuple(row for row, held in enumerate(manifest.parts) if held == part)
            whose = "" if part == "all" else f" of the part {part!r}"
            message = f"all images{whose} are of one class, {manifest.values('class_name')[rows[0]]!r}"
            found.append(Finding("one-class", "error", message, "add images of other classes", rows))
    return found


def empty_classes(manifest: Manifest) -> list[Finding]:
    """Folders that hold no image and so name no class."""
    empty = manifest.empty_folders
    if not empty:
        return []
    message = f"{len(empty)} folders hold no image: {', '.join(map(repr, empty[:3]))}"
    remedy = f"add images ({', '.join(sorted(ENDINGS))}) or remove the folders"
    return [Finding("empty-class", "warning", message, remedy, ())]


def tiny_classes(manifest: Manifest, smallest: int) -> list[Finding]:
    """Classes with fewer images than ``smallest``."""
    rows = defaultdict(list)
    for row, label in enumerate(manifest.values("label")):
        rows[label].append(row)
    names = manifest.values("class_name")
    remedy = "add images, merge the class with a similar one, or remove it"
    return [
        Finding("tiny-class", "warning", f"class {names[held[0]]!r} has {len(held)} image(s)", remedy, tuple(held))
        for _, held in sorted(rows.items())
        if len(held) < smallest
    ]


def class_overlap(manifest: Manifest) -> list[Finding]:
    """Classes that are in train and in test, by label and by name."""
    for column in ("label", "class_name"):
        values, parts = manifest.values(column), manifest.parts
        seen = {part: {v for v, p in zip(values, parts, strict=True) if p == part} for part in ("train", "test")}
        shared = seen["train"] & seen["test"]
        if shared:  # names repeat what labels say
            rows = tuple(row for row, value in enumerate(values) if value in shared)
            example = manifest.values("class_name")[rows[0]]
            message = f"{len(shared)} classes are in train and in test (by {column}), for example {example!r}"
            return [Finding("class-overlap", "error", message, overlap_remedy(manifest), rows)]
    return []


def duplicates(manifest: Manifest) -> list[Finding]:
    """Files with the same bytes: across train and test a leak, within a part a warning."""
    complete = manifest if manifest.has("content") else manifest.with_content()
    if not complete.has("content"):
        return []
    rows = defaultdict(list)
    for row, digest in enumerate(complete.values("content")):
        rows[digest].append(row)
    parts, paths, labels = manifest.parts, manifest.values("path"), manifest.values("label")
    found = []
    for held in (some for some in rows.values() if len(some) > 1):
        leak = len({parts[row] for row in held}) > 1
        classes = len({labels[row] for row in held})
        where = "in train and in test" if leak else f"in {classes} classes" if classes > 1 else "in one class"
        message = f"{len(held)} files with the same content {where}: {', '.join(paths[row] for row in held[:3])}"
        remedy = "remove the copy from train" if leak else "keep one of them"
        severity: Literal["error", "warning"] = "error" if leak or classes > 1 else "warning"
        found.append(Finding("leak" if leak else "duplicate", severity, message, remedy, tuple(held)))
    return found
