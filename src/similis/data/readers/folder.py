"""A folder of class folders: ``photos/cat/1.jpg``, or ``photos/train/cat/1.jpg`` beside ``photos/test/...``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from similis.data.extras import extra
from similis.data.manifest import Manifest, from_columns
from similis.data.sources import FolderSource, Source, is_url
from similis.data.table import SPLITS, numbered
from similis.values import DataError

ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})


def read_folder(root: str) -> Manifest:
    """A manifest of every image below a folder; the folder that holds an image names its class.

    Args:
        root: a path of this machine or an fsspec URL.

    Example:
        >>> read_folder("photos/")  # doctest: +SKIP
    """
    files = listed(root)
    return by_parent(PurePosixPath(root.rstrip("/")).name or root, files, FolderSource(root), root)


def listed(root: str) -> list[str]:
    """Relative paths of all files below a folder, sorted."""
    if is_url(root):
        system, top = extra("fsspec").core.url_to_fs(root)
        start = len(top.rstrip("/")) + 1
        return sorted(path[start:] for path in system.find(top))
    if not Path(root).is_dir():
        raise DataError(f"no folder {root!r}; give a folder of class folders, an archive, a table or a known name")
    return sorted(
        (Path(folder) / name).relative_to(root).as_posix()
        for folder, _, names in os.walk(root, followlinks=True)
        for name in names
    )


def by_parent(name: str, files: Iterable[str], source: Source, where: str) -> Manifest:
    """A manifest in which the parent folders of an image name its class; other files are left out."""
    images = [path for path in files if is_image(path)]
    if not images:
        raise DataError(f"{where!r} holds no image; known endings are {', '.join(sorted(ENDINGS))}")
    loose = [path for path in images if "/" not in path]
    if loose:
        raise DataError(f"{where!r}: {len(loose)} images ({loose[0]!r}) lie in no class folder; move them into one")
    parents = [list(PurePosixPath(path).parts[:-1]) for path in images]
    columns: dict[str, list[object]] = {"path": list(images)}
    if {parts[0] for parts in parents} == set(SPLITS) and all(len(parts) > 1 for parts in parents):
        columns["split"] = [parts.pop(0) for parts in parents]
    names = ["/".join(parts) for parts in parents]
    columns |= {"class_name": list(names), "label": list(numbered(text_order(names)))}
    return from_columns(name, columns, source)


def text_order(names: list[str]) -> list[str]:
    """Names marked as text: folders called 10 and 9 sort as folders do, not as numbers."""
    return [f"/{name}" for name in names]


def is_image(path: str) -> bool:
    """Whether the ending is that of an image and no part of the path is hidden."""
    pure = PurePosixPath(path)
    return pure.suffix.lower() in ENDINGS and not any(part.startswith((".", "__")) for part in pure.parts)
