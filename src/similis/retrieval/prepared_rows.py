"""What searches need of a gallery, kept while it grows: a new row costs the same, however many there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from similis.retrieval.similarity import GalleryRows, row_hashes, to_comparable


class GrownTensor:
    """A tensor (n, ...) that rows are appended to; its capacity is doubled when it is used up.

    Example:
        >>> grown = GrownTensor(2)
        >>> grown.extend(torch.eye(2))
        >>> early = grown.first(2)
        >>> grown.extend(torch.zeros(1, 2))
        >>> len(grown), early.tolist()
        (3, [[1.0, 0.0], [0.0, 1.0]])
    """

    def __init__(self, *shape: int, dtype: torch.dtype = torch.float32) -> None:
        self._room = torch.empty(0, *shape, dtype=dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, rows: Tensor) -> None:
        """Put rows behind the others; what :meth:`first` gave before stays as it is."""
        end = self._count + len(rows)
        if end > len(self._room):
            room = torch.empty(max(end, 2 * len(self._room)), *self._room.shape[1:], dtype=rows.dtype)
            room[: self._count] = self._room[: self._count]
            self._room = room
        self._room[self._count : end] = rows
        self._count = end

    def first(self, count: int) -> Tensor:
        """The first rows, without a copy."""
        return self._room[:count]


class Prefix(Sequence[Any]):
    """The first items of a list that only grows, without a copy."""

    def __init__(self, items: list[Any], count: int) -> None:
        self._items, self._count = items, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return islice(self._items, self._count)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self._items[each] for each in range(*place.indices(self._count))]
        return self._items[range(self._count)[place]]


class Numbered(NamedTuple):
    """The number of each row's label (N,), -1 for none, and the labels by number."""

    numbers: Tensor
    names: Sequence[str]


class PreparedRows:
    """Comparable vectors, repeats and numbers of labels of rows that are given in their order, some more each time.

    Methods take all rows, compute what is new among them, and may be called from several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._vectors: GrownTensor | None = None
        self._repeats, self._originals, self._numbers = (GrownTensor(dtype=torch.long) for _ in range(3))
        self._hashes: dict[int, int] = {}  # of a row -> the first row that has it
        self._names: dict[str, int] = {}  # label -> number

    def rows(self, vectors: Tensor) -> GalleryRows:
        """The vectors (N, D) as :func:`similis.retrieval.similarity.as_gallery` prepares them."""
        count = len(vectors)
        with self._lock:
            if self._vectors is None:
                self._vectors = GrownTensor(*vectors.shape[1:], dtype=vectors.dtype)
            if count > len(self._vectors):
                self._extend(self._vectors, to_comparable(vectors[len(self._vectors) :]))
            kept = int(torch.searchsorted(self._repeats.first(len(self._repeats)), count))
            return GalleryRows(self._vectors.first(count), self._repeats.first(kept), self._originals.first(kept))

    def _extend(self, known: GrownTensor, new: Tensor) -> None:
        start = len(known)
        known.extend(new)
        vectors = known.first(len(known))
        for row, value in enumerate(row_hashes(new).tolist(), start):
            original = self._hashes.setdefault(value, row)
            if original != row and torch.equal(vectors[original], vectors[row]):
                self._repeats.extend(torch.tensor([row]))
                self._originals.extend(torch.tensor([original]))

    def number_labels(self, entries: Sequence[Any]) -> Numbered:
        """Numbers of the labels of all entries, in the order in which labels occur."""
        count = len(entries)
        with self._lock:
            labels = [entries[row].label for row in range(len(self._numbers), count)]
            new = [-1 if label is None else self._names.setdefault(label, len(self._names)) for label in labels]
            self._numbers.extend(torch.tensor(new, dtype=torch.long))
            numbers = self._numbers.first(count)
            seen = int(numbers.max()) + 1 if count else 0
            return Numbered(numbers, list(islice(self._names, seen)))

    def number(self, label: str) -> int | None:
        """The number of a label; None for one that no row has."""
        return self._names.get(label)
