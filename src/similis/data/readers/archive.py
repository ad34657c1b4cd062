"""A zip archive of images: with a table beside it (``x.zip`` + ``x.tsv``), or with class folders inside."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from similis.data.manifest import Manifest, from_columns
from similis.data.readers.delimited import read_columns
from similis.data.readers.folder import by_parent
from similis.data.sources import connect, file_version, is_url
from similis.data.table import standard
from similis.data.zip_source import ZipSource, open_zip
from similis.values import DataError


def read_archive(place: str, *, table: str | None = None) -> Manifest:
    """A manifest from a zip archive; images are read from the archive, nothing is unpacked.

    Args:
        place: path or fsspec URL of the zip; stored (uncompressed) members are quickest.
        table: path of its TSV or CSV; None for the file of the same name beside it, if there is one.

    Example:
        >>> read_archive("cub200_2011.zip")  # doctest: +SKIP
    """
    with open_zip(place) as archive:
        names = {False: set[str](), True: set[str]()}
        for entry in archive.infolist():
            names[entry.is_dir()].add(entry.filename.rstrip("/"))
    members, folders = names[False], names[True]
    name, source = PurePosixPath(place).stem, ZipSource(place, file_version(place).mark)
    table = table or beside(place)
    if table is None:
        return by_parent(name, sorted(members), sorted(folders), source, place)
    columns = standard(read_columns(table), table)
    missing = [path for path in columns["path"] if path not in members]
    if missing:
        raise DataError(f"{len(missing)} images of {table!r} are missing in {place!r}, the first is {missing[0]!r}")
    return from_columns(name, columns, source)


def beside(place: str) -> str | None:
    """The table that lies beside an archive under its name, if any."""
    for ending in (".tsv", ".csv"):
        table = place.removesuffix(".zip") + ending
        if exists(table):
            return table
    return None


def exists(place: str) -> bool:
    """Whether a file or folder exists, local or behind an fsspec URL."""
    if is_url(place):
        system, path = connect(place)
        return bool(system.exists(path))
    return Path(place).exists()
