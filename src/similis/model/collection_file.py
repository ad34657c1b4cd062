"""The file of a collection that is served: which model its vectors are of, and where later models are kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from similis.training.file_lock import hold_lock
from similis.values import DataError, UserError


def read_about(file: Path) -> dict[str, str]:
    """What a collection says of itself; nothing where there is none, or where none is filled yet."""
    if not file.exists():
        return {}
    place = file.absolute().as_uri()
    try:
        try:
            return query_about(f"{place}?mode=ro")
        except sqlite3.OperationalError:  # a file system that cannot be written has no place for SQLite's own files
            return query_about(f"{place}?immutable=1")
    except sqlite3.DatabaseError as error:
        raise DataError(f"{file} is not a collection ({error}); give another file with --store") from error


def query_about(address: str) -> dict[str, str]:
    """The table ``about`` of a database; nothing where there is none."""
    with closing(sqlite3.connect(address, uri=True)) as opened:
        if not opened.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchall():
            return {}
        return dict(opened.execute("SELECT name, value FROM about").fetchall())


def later_model(file: Path, model_hash: str) -> Path:
    """The folder of a model that a collection was upgraded to."""
    return Path(f"{file}-models") / model_hash[:12]


def prepared_file(file: Path) -> Path:
    """Where an upgrade keeps the vectors of the next model; it is there while one is under way."""
    return Path(f"{file}-next")


def served_model(folder: Path, file: Path, model_hash: str | None = None) -> Path:
    """The folder of the model whose vectors a collection holds: the bundle, or one that it was upgraded to."""
    wanted = read_about(file).get("model_hash", "") if model_hash is None else model_hash
    later = later_model(file, wanted)
    return later if wanted and later.is_dir() else folder


def check_unserved(file: Path) -> None:
    """Raise if a server holds a collection."""
    if file.exists():
        busy = f"{file.parent} is being served; export into another folder, or stop the server first"
        with hold_lock(Path(f"{file}.lock"), busy=busy):
            pass


def check_collection(file: Path, model_hash: str) -> None:
    """Raise if a collection holds vectors of another model than the one that is written beside it."""
    held = read_about(file).get("model_hash", model_hash)
    if held != model_hash:
        raise UserError(
            f"{file} holds vectors of the model {held[:12]}, which the model {model_hash[:12]} cannot search; export "
            f"into another folder, or take the collection along: similis upgrade {file.parent} --model RUN"
        )
