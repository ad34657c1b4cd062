"""A table with one row per image: CSV or TSV with paths."""

from __future__ import annotations

import csv
import io
from pathlib import Path, PurePosixPath

from similis.data.manifest import Manifest, from_columns
from similis.data.sources import FolderSource, is_url, open_binary
from similis.data.table import check_columns, standardise_columns
from similis.values import DataError


def read_delimited(place: str, *, images: str | None = None) -> Manifest:
    """A manifest from a CSV (comma) or TSV (tab) file with a header line.

    Columns as in :data:`similis.data.table.ALIASES`; paths are relative to ``images``, by default the table's folder.
    """
    root = images or parent(place)
    columns = standardise_columns(read_columns(place), place)
    return from_columns(PurePosixPath(place).stem, columns, FolderSource(root))


def read_columns(place: str) -> dict[str, list[str]]:
    """The columns of a delimited file as text; tabs separate in ``.tsv`` and ``.txt``, commas elsewhere."""
    tabs = place.endswith((".tsv", ".txt"))
    try:
        with open_binary(place) as file:
            text = bytes(file.read()).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise DataError(f"there is no table {place!r}; check the path") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DataError(
            f"{place!r} is not UTF-8 (line {line}); save it as UTF-8, for example with: iconv -f latin1 -t utf-8"
        ) from error
    # Quotes are plain characters in a TSV, as in most published lists; a CSV quotes its commas.
    lines = csv.reader(io.StringIO(text, newline=""), dialect="excel-tab" if tabs else "excel",
                       quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL)  # fmt: skip
    try:
        rows = [row for row in lines if row]
    except csv.Error as error:
        raise DataError(f"{place!r}: line {lines.line_num} cannot be read ({error}); correct it") from error
    if not rows:
        raise DataError(f"{place!r}: the table is empty; its first line must name the columns")
    check_columns(rows[0], place)
    bad = next((number for number, row in enumerate(rows) if len(row) != len(rows[0])), None)
    if bad is not None:
        raise DataError(f"{place!r}: line {bad + 1} has {len(rows[bad])} fields, the header has {len(rows[0])}")
    return {name: [row[column] for row in rows[1:]] for column, name in enumerate(rows[0])}


def parent(place: str) -> str:
    """The folder of a file, local or URL."""
    return place.rpartition("/")[0] if is_url(place) else str(Path(place).parent)
