"""A folder of class folders: ``photos/cat/1.jpg``, or ``photos/train/cat/1.jpg`` beside ``photos/test/...``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from similis.data.manifest import Manifest, from_columns
from similis.data.sources import FolderSource, Source, connect, is_url
from similis.data.table import SPLITS, number_classes
from similis.values import DataError

ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".avif", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})


def read_folder(root: str) -> Manifest:
    """A manifest of every image below a folder; the folder that holds an image names its class."""
    files, folders = list_tree(root)
    return by_parent(PurePosixPath(root.rstrip("/")).name or root, files, folders, FolderSource(root), root)


def list_tree(root: str) -> tuple[list[str], list[str]]:
    """Relative paths of all files below a folder and of all folders, both sorted; what is hidden is left out."""
    files: list[str] = []
    folders: list[str] = []
    for path, entry in walk_remote(root) if is_url(root) else walk_tree(root):
        (folders if entry is None else files).append(path)
    return sorted(files), [] if is_url(root) else sorted(folders)


def walk_tree(root: str) -> Iterator[tuple[str, os.DirEntry[str] | None]]:
    """Relative path and entry of every file below a folder, and None for a folder; each folder in the order of names.

    One folder at a time is held in memory; what is hidden is left out.
    """
    waiting = [("", frozenset({identity(root)}))]  # a folder with those it lies in, by which a loop is noticed
    while waiting:
        folder, above = waiting.pop()
        below = []
        for entry in sorted(entries(root, folder), key=lambda each: each.name):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if is_hidden(entry.name):
                continue
            if not is_folder(entry):
                yield path, entry
                continue
            own = identity(entry.path)
            if own in above:
                raise DataError(f"{root!r}: {path!r} is a link to a folder that it lies in; remove the link")
            yield path, None
            below.append((path, above | {own}))
        waiting += reversed(below)


def walk_remote(root: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Relative path and facts of every file below an fsspec URL, as :func:`walk_tree`."""
    system, top = connect(root)
    top, waiting = top.rstrip("/"), [top.rstrip("/")]
    while waiting:
        folder = waiting.pop()
        listed = sorted(system.ls(folder, detail=True), key=lambda facts: str(facts["name"]))
        system.invalidate_cache(folder)  # which would hold the whole tree in the end
        for facts in listed:
            if facts["type"] == "file" and facts["name"].rstrip("/") != folder:
                yield str(facts["name"])[len(top) + 1 :], facts
        waiting += [
            name
            for facts in reversed(listed)
            if facts["type"] != "file" and (name := facts["name"].rstrip("/")) != folder
        ]


def entries(root: str, folder: str) -> list[os.DirEntry[str]]:
    """What a folder holds."""
    try:
        with os.scandir(Path(root) / folder) as found:
            return list(found)
    except OSError as error:
        raise DataError(
            f"the folder {folder[:80]!r} of {root!r} cannot be read ({error.strerror}); "
            "change its permissions, move it or remove it"
        ) from error


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder or a link to one; a link to itself is neither."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def identity(folder: str) -> tuple[int, int]:
    """The same for every path that leads to a folder."""
    facts = Path(folder).stat()
    return facts.st_dev, facts.st_ino


def by_parent(name: str, files: Iterable[str], folders: Sequence[str], source: Source, where: str) -> Manifest:
    """A manifest in which the parent folders of an image name its class; other files are left out."""
    images = [path for path in files if is_image(path)]
    if not images:
        raise DataError(
            f"{where!r} holds no image ({', '.join(sorted(ENDINGS))}); put images there, in a folder for each class"
        )
    wrong = [path for path in images if not is_utf8(path)]
    if wrong:  # every table and every report needs it
        raise DataError(
            f"{len(wrong)} of {len(images)} file names in {where!r} are not UTF-8, the first is {wrong[0]!r}; rename "
            "them, for example with: convmv -r -f latin1 -t utf8 --notest FOLDER"
        )
    loose = [path for path in images if "/" not in path]
    if loose:
        raise DataError(f"{where!r}: {len(loose)} images ({loose[0]!r}) lie in no class folder; move them into one")
    parents = [list(PurePosixPath(path).parts[:-1]) for path in images]
    columns: dict[str, list[object]] = {"path": list(images)}
    if {parts[0] for parts in parents} == set(SPLITS) and all(len(parts) > 1 for parts in parents):
        columns["split"] = [parts.pop(0) for parts in parents]
    names = ["/".join(parts) for parts in parents]
    # Marked as text, so that folders called 10 and 9 sort as folders do and not as numbers.
    columns |= {"class_name": list(names), "label": list(number_classes([f"/{name}" for name in names]))}
    return replace(from_columns(name, columns, source), empty_folders=without_images(folders, images))


def is_utf8(text: str) -> bool:
    """Whether a path of this machine can be written as UTF-8."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def without_images(folders: Iterable[str], images: Iterable[str]) -> tuple[str, ...]:
    """The topmost folders that hold no image, neither themselves nor below."""
    full = {""}
    for image in images:
        parent = image.rpartition("/")[0]
        while parent not in full:
            full.add(parent)
            parent = parent.rpartition("/")[0]
    return tuple(folder for folder in folders if folder not in full and folder.rpartition("/")[0] in full)


def is_image(path: str) -> bool:
    """Whether the ending is that of an image and no part of the path is hidden."""
    pure = PurePosixPath(path)
    return pure.suffix.lower() in ENDINGS and not any(is_hidden(part) for part in pure.parts)


def is_hidden(name: str) -> bool:
    """Whether a file or folder is kept from view: ``.git``, ``__MACOSX``."""
    return name.startswith((".", "__"))
