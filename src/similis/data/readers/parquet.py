"""A Parquet file with one row per image: its bytes or its ready features inside, or its path beside it."""

from __future__ import annotations

from pathlib import PurePosixPath

from similis.data.manifest import Manifest, from_columns
from similis.data.readers.delimited import parent
from similis.data.sources import FolderSource, first_line, open_binary
from similis.data.table import check_columns, standard
from similis.values import DataError, import_extra


def read_parquet(place: str, *, images: str | None = None) -> Manifest:
    """A manifest from a Parquet file; a column ``bytes`` or ``vector`` wins over paths.

    Args:
        place: path or fsspec URL; columns as in :data:`similis.data.table.ALIASES`.
        images: the folder or URL that paths are relative to; None for the table's own folder.

    Example:
        >>> read_parquet("photos.parquet")  # doctest: +SKIP
    """
    try:
        with open_binary(place) as file:
            table = import_extra("pyarrow.parquet").ParquetFile(file).read()
        check_columns(table.column_names, place)
        columns = standard(table.to_pydict(), place)
    except FileNotFoundError as error:
        raise DataError(f"there is no table {place!r}") from error
    except (OSError, UnicodeDecodeError, import_extra("pyarrow").ArrowException) as error:
        raise DataError(f"{place!r} is no Parquet file or damaged ({first_line(error)}); write it again") from error
    name = PurePosixPath(place).stem
    if "bytes" in columns or "vector" in columns:
        return from_columns(name, columns)
    return from_columns(name, columns, FolderSource(images or parent(place)))
