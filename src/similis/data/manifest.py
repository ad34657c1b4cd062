"""A manifest: the list of a data set's images with their classes, and where their bytes come from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from similis.data.content import digest_of
from similis.data.sources import Source
from similis.data.table import Columns, to_arrow, vector_rows
from similis.values import DataError

# What makes two manifests the same data; places on a machine are not among them.
_IDENTITY = ("id", "path", "label", "class_name", "group", "super_class", "role", "split", "content")


@dataclass(frozen=True, eq=False)
class Manifest:
    """Images of a data set as an Arrow table, and the source of their bytes.

    Columns: ``id`` (int64, kept by :meth:`select`), ``path`` (relative, or the member of an archive),
    ``label`` (0-based, contiguous), ``class_name``; optional ``bytes``, ``vector`` (ready features in place of
    an image), ``group`` (photos that must not answer each other: one session, one vendor), ``super_class`` (kept with
    the data; nothing reads it), ``role`` (query, gallery, both), ``split`` (train, test: an official one), ``content``
    (the hash of the image's bytes, from :meth:`with_content`).

    Attributes:
        name: of the data set.
        table: the columns.
        source: of the bytes; None where the table holds them.
        empty_folders: those without an image, where folders name the classes; None where a column does.
        model_hash: of the model that made the ready vectors, where their file states it.
    """

    name: str
    table: Any
    source: Source | None = None
    empty_folders: tuple[str, ...] | None = None
    model_hash: str = ""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def labels(self) -> Tensor:
        """Labels (N,), int64."""
        return torch.from_numpy(self.table.column("label").to_numpy().copy())

    @property
    def ids(self) -> Tensor:
        """Ids (N,), int64: row numbers of the data set as it was opened."""
        return torch.from_numpy(self.table.column("id").to_numpy().copy())

    @property
    def vectors(self) -> Tensor:
        """Ready feature vectors (N, F), float32, of a data set that holds vectors in place of images."""
        column = self.table.column("vector").combine_chunks()
        found = torch.from_numpy(vector_rows(column, f"vectors of data set {self.name!r}")).float()
        wrong = (~found.isfinite().all(dim=1)).nonzero().flatten().tolist()
        if wrong:
            raise DataError(
                f"{len(wrong)} vectors of data set {self.name!r} are not finite, the first is row {wrong[0]}; fix them"
            )
        return found

    @property
    def parts(self) -> list[str]:
        """The part of every row, ``train`` or ``test``; ``all`` where the data set states no split."""
        return self.values("split") if self.has("split") else ["all"] * len(self)

    @property
    def class_names(self) -> list[str]:
        """The name of every class, in the order of the labels that occur."""
        return list(self.classes(torch.arange(len(self))).values())

    def classes(self, rows: Tensor) -> dict[int, str]:
        """Label -> name of the classes that these rows belong to, in the order of the labels."""
        first = dict(zip(self.labels[rows].tolist(), rows.tolist(), strict=True))
        names = self.table.column("class_name")
        return {label: names[first[label]].as_py() for label in sorted(first)}

    def values(self, column: str) -> list[Any]:
        """A column as a list; a column that the data set lacks is a DataError."""
        if not self.has(column):
            raise DataError(f"data set {self.name!r} has no column {column!r}; it has {self.table.column_names}")
        return list(self.table.column(column).to_pylist())

    def has(self, column: str) -> bool:
        """Whether the data set states this column."""
        return column in self.table.column_names

    def numbers(self, column: str) -> Tensor:
        """A text column as numbers 0, 1, ... in the order of its sorted values, (N,)."""
        values = [str(value) for value in self.values(column)]
        order = {value: number for number, value in enumerate(sorted(set(values)))}
        return torch.tensor([order[value] for value in values])

    def select(self, rows: Tensor | Sequence[int]) -> Manifest:
        """The manifest of these rows, in this order; ids and labels stay as they are."""
        return replace(self, table=self.table.take(torch.as_tensor(rows, dtype=torch.int64).numpy()))

    def rows_of(self, role: str, rows: Tensor) -> Tensor:
        """Those rows that may act as ``query`` or as ``gallery``; all of them where roles are not stated."""
        if not self.has("role"):
            return rows
        roles = self.table.column("role")
        keep = [roles[row].as_py() in (role, "both", None) for row in rows.tolist()]
        return rows[torch.tensor(keep, dtype=torch.bool)]

    def read_bytes(self, row: int) -> bytes:
        """The encoded image of a row."""
        if self.source is None:
            if not self.has("bytes"):
                raise DataError(f"data set {self.name!r} holds vectors and no images; open a data set of images")
            return bytes(self.table.column("bytes")[row].as_py())
        return self.source.read(self.table.column("id")[row].as_py(), self.table.column("path")[row].as_py())

    def with_content(self, *, verify: bool = False) -> Manifest:
        """The same manifest with the hash of every image's bytes in its column ``content``.

        Files are read once and their hashes kept (:mod:`similis.data.content`); bytes of a table are hashed each time.

        Args:
            verify: read every file again.
        """
        if self.source is not None:
            digests = self.source.digests(self.values("id"), self.values("path"), verify=verify)
        elif self.has("bytes"):
            digests = [digest_of(self.read_bytes(row)) for row in range(len(self))]
        else:
            return self  # ready vectors, which the fingerprint covers themselves
        return self.with_columns({"content": digests})

    def with_columns(self, columns: Columns) -> Manifest:
        """The same manifest with these columns in place of its own, or beside them."""
        table = self.table
        for name, values in columns.items():
            table = (table.drop_columns([name]) if name in table.column_names else table).append_column(name, [values])
        return replace(self, table=table)

    def fingerprint(self) -> str:
        """The sha256 of ids, relative paths, labels, names, splits and contents; a packed copy has the same."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256()
        complete = self if self.has("content") else self.with_content()
        for column in _IDENTITY:
            if complete.has(column):
                digest.update(f"\n{column}\n".encode())
                digest.update("\0".join(map(str, complete.values(column))).encode())
        if self.has("vector"):
            digest.update(self.vectors.numpy().tobytes())
        return digest.hexdigest()


def from_columns(name: str, columns: Columns, source: Source | None = None) -> Manifest:
    """A manifest from columns under the manifest's own names (see :func:`similis.data.table.standardise_columns`).

    Example:
        >>> m = from_columns("two", {"label": [0, 1], "class_name": ["cat", "dog"], "bytes": [b"x", b"yz"]})
        >>> len(m), m.read_bytes(1), m.class_names
        (2, b'yz', ['cat', 'dog'])
    """
    if not len(columns["label"]):
        raise DataError(f"data set {name!r} holds no image; add some, or check the path and the file endings")
    return Manifest(name, to_arrow(columns), source)
