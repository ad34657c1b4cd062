"""A Lance data set as ``similis data pack`` writes it: columns of the manifest and the images' bytes."""

from __future__ import annotations

from pathlib import PurePosixPath

from similis.data.lance_source import LanceSource, lance_errors
from similis.data.manifest import Manifest
from similis.data.sources import tree_version
from similis.values import DataError, import_extra

WANTED = ("id", "path", "label", "class_name", "bytes")


def read_lance(place: str) -> Manifest:
    """A manifest whose images are read one by one, in any order, from a Lance data set.

    Args:
        place: path or URL of the data set (a folder that ends in ``.lance``).

    Example:
        >>> read_lance("photos.lance")  # doctest: +SKIP
    """
    lance = import_extra("lance")
    with lance_errors(place):
        data = lance.dataset(place)
        names = data.schema.names
        missing = [name for name in WANTED if name not in names]
        if missing:
            raise DataError(f"{place!r} lacks the columns {missing}; write it with: similis data pack")
        table = data.to_table(columns=[name for name in names if name != "bytes"])
    stored = (table.schema.metadata or {}).get(b"similis.name", b"").decode()
    source = LanceSource(place, tree_version(place).mark)
    return Manifest(stored or PurePosixPath(place.rstrip("/")).stem, table.replace_schema_metadata(None), source)
