"""An index as a gallery that is searched and not changed, for answers from more vectors than memory holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from similis.retrieval.gallery import Contents, Entry, Gallery, Labelled
from similis.retrieval.index import Index
from similis.retrieval.prepared_rows import Numbered
from similis.retrieval.similarity import GalleryRows
from similis.values import Neighbors


class IndexedEntries(Sequence[Entry]):
    """The entries of an index, made as they are asked for; what they were made from is not known."""

    def __init__(self, index: Index) -> None:
        self.held = index

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, row: Any) -> Any:
        return Entry(*self.held.entry(row), "")


class IndexedContents(Contents):
    """An index as contents of a gallery; approximate, and copies of a query cannot be left out."""

    def __init__(self, index: Index) -> None:
        super().__init__(index.stored, IndexedEntries(index), 0)
        object.__setattr__(self, "index", index)

    index: Index

    @cached_property
    def numbered(self) -> Numbered:
        """Numbers of labels as the index has them; a row without a label has -1."""
        names, nothing = self.index.names, {place for place, name in enumerate(self.index.names) if name is None}
        kept = [name for name in names if name is not None]
        places = np.cumsum([place not in nothing for place in range(len(names))]) - 1
        places[list(nothing)] = -1
        return Numbered(torch.from_numpy(places[self.index.numbers]), kept)

    @cached_property
    def voters(self) -> Labelled:
        """All rows: those without a label are left out of each vote."""
        none = torch.empty(0, dtype=torch.long)
        return Labelled(GalleryRows(self.vectors, none, none), *self.numbered)

    def search(
        self,
        queries: Tensor,
        k: int,
        hidden: Sequence[str] | None = None,  # noqa: ARG002
        label: str | None = None,
    ) -> Neighbors:
        """The k rows most like each query that the index finds."""
        return self.index.search(queries, k, None if label is None else [label])

    @property
    def all_vote(self) -> bool:
        """Whether every row has a label."""
        return None not in self.index.names

    def search_voters(self, queries: Tensor, k: int, hidden: Sequence[str] | None = None) -> Neighbors:
        """The neighbours of a search that have a label, and -1 behind them for those that have none."""
        near = self.search(queries, k, hidden)
        silent = self.numbered.numbers[near.index.clamp(min=0)] < 0
        order = silent.int().argsort(dim=1, stable=True)
        index = near.index.masked_fill(silent, -1).gather(1, order)
        return Neighbors(index, near.similarity.masked_fill(silent, -torch.inf).gather(1, order))


class IndexedGallery(Gallery):
    """A gallery whose contents are those of an index."""

    def __init__(self, index: Index) -> None:
        super().__init__(index.dim)
        self.index, self._contents = index, IndexedContents(index)

    def __len__(self) -> int:
        return len(self.index)

    def contents(self) -> Contents:
        """The index."""
        return self._contents

    def find(self, id: str) -> tuple[Entry, Tensor] | None:
        """Entry and vector (D,) of an id; it is looked for among all."""
        row = self.index.row_of(id)
        return None if row is None else (self._contents.entries[row], self.index.stored[row].clone())
