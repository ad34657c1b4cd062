"""Checks of a data set before hours are spent on it: each finding says what to do."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Literal

from similis.data.images import prepare
from similis.data.manifest import Manifest
from similis.values import DataError

Kind = Literal["unreadable", "tiny-class", "duplicate", "leak", "class-overlap"]
_SMALL = 32  # short side for the trial decode


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or may be.

    Attributes:
        kind: ``unreadable`` image; ``tiny-class`` (fewer images than asked); ``duplicate`` (same bytes, same
            part); ``leak`` (same bytes in train and test); ``class-overlap`` (a class in train and test).
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
        >>> from similis.data.opening import open_data
        >>> check_data(open_data("synthetic?classes=4&images=3&size=16"))
        []
    """
    unreadable, digests = read_all(manifest)
    found = [*unreadable, *tiny_classes(manifest, smallest_class)]
    if manifest.has("split"):
        found += class_overlap(manifest)
    return found + duplicates(manifest, digests)


def read_all(manifest: Manifest) -> tuple[list[Finding], list[str | None]]:
    """Findings about unreadable images, and the hash of every image's bytes (None where there are none)."""
    found: list[Finding] = []
    digests: list[str | None] = []
    paths = manifest.values("path")
    for row in range(len(manifest)):
        digest = None
        try:
            data = manifest.read_bytes(row)
            digest = hashlib.sha256(data).hexdigest()
            prepare(data, resize=_SMALL)
        except DataError as error:
            message = f"{paths[row]!r}: {error}"
            found.append(Finding("unreadable", "error", message, "replace the file or remove it", (row,)))
        digests.append(digest)
    return found, digests


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
    parts = manifest.values("split")
    remedy = "drop the column 'split' (classes are then divided by a seed), or give each class one part"
    found = []
    for column in ("label", "class_name"):
        values = manifest.values(column)
        seen = {part: {v for v, p in zip(values, parts, strict=True) if p == part} for part in ("train", "test")}
        shared = seen["train"] & seen["test"]
        if shared:
            rows = tuple(row for row, value in enumerate(values) if value in shared)
            example = manifest.values("class_name")[rows[0]]
            message = f"{len(shared)} classes are in train and in test (by {column}), for example {example!r}"
            found.append(Finding("class-overlap", "error", message, remedy, rows))
            break  # names repeat what labels say
    return found


def duplicates(manifest: Manifest, digests: list[str | None]) -> list[Finding]:
    """Files with the same bytes: across train and test a leak, within a part a warning."""
    counts = Counter(digest for digest in digests if digest is not None)
    rows = defaultdict(list)
    for row, digest in enumerate(digests):
        if digest is not None and counts[digest] > 1:
            rows[digest].append(row)
    parts = manifest.values("split") if manifest.has("split") else ["all"] * len(manifest)
    paths, labels = manifest.values("path"), manifest.values("label")
    found = []
    for held in rows.values():
        leak = len({parts[row] for row in held}) > 1
        classes = len({labels[row] for row in held})
        where = "in train and in test" if leak else f"in {classes} classes" if classes > 1 else "in one class"
        message = f"{len(held)} files with the same content {where}: {', '.join(paths[row] for row in held[:3])}"
        remedy = "remove the copy from train" if leak else "keep one of them"
        severity: Literal["error", "warning"] = "error" if leak or classes > 1 else "warning"
        found.append(Finding("leak" if leak else "duplicate", severity, message, remedy, tuple(held)))
    return found
