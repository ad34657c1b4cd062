"""What routes ask of a store, answered from an index, which takes no changes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from similis.retrieval.index import Index
from similis.serving.store import Store


class IndexedStore(Store):
    """The items of an index in the order of their rows; it has no pictures."""

    def __init__(self, index: Index, folder: Path) -> None:
        self.index = index
        self.refusal = (
            f"{folder} is an index, opened --read-only; embed the changed collection (similis embed does the rest), "
            f"build it again (similis index VECTORS --out {folder}), and restart; see docs/scale.md for databases"
        )

    def list_items(self, *, label: str | None, after: str, limit: int) -> list[tuple[str, str | None]]:
        """Ids and labels behind an id, at most ``limit``, with this label only if one is given."""
        start = self.index.row_of(after) if after else -1
        entries = map(self.index.entry, range(len(self.index) if start is None else start + 1, len(self.index)))
        return list(islice((each for each in entries if label in (None, each[1])), limit))

    def thumbnail(self, id: str) -> bytes | None:
        """None: an index has no pictures."""

    def original_sizes(self) -> dict[str, int]:
        """Nothing: an index has no images."""
        return {}

    def close(self) -> None:
        """Nothing is open."""
