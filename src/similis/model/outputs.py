"""Files of a bulk job in a folder or behind an fsspec URL: each appears whole, under its name, or not at all."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from similis.data.sources import connect, is_url, join_path
from similis.training.files import explain_write_errors, replace_file


def write_output(place: str, write: Callable[[Any], object]) -> None:
    """Write a file with ``write(file)``: locally by renaming it, behind a URL by one upload."""
    if not is_url(place):
        replace_file(Path(place), write)
        return
    write(held := io.BytesIO())
    system, path = connect(place)
    with explain_write_errors(Path(place)):
        system.pipe_file(path, held.getvalue())


def list_outputs(folder: str) -> list[str]:
    """The names of the files in a folder or behind a URL, sorted; none where there is no folder."""
    try:
        if not is_url(folder):
            return sorted(path.name for path in Path(folder).iterdir())
        system, path = connect(folder)
        system.invalidate_cache(path)
        return sorted(each.rstrip("/").rpartition("/")[2] for each in system.ls(path, detail=False))
    except FileNotFoundError:
        return []


def remove_output(folder: str, name: str) -> None:
    """Delete a file that may be gone already."""
    if not is_url(folder):
        (Path(folder) / name).unlink(missing_ok=True)
        return
    system, path = connect(join_path(folder, name))
    if system.exists(path):
        system.rm_file(path)
