"""Images as rows of a Lance data set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from similis.data.content import digest_of, known_digests
from similis.data.sources import first_line, tree_version
from similis.values import DataError, SimilisError, import_extra


@contextmanager
def lance_errors(place: str) -> Iterator[None]:
    """Whatever Lance raises on damaged files as one DataError."""
    try:
        yield
    except SimilisError:
        raise
    except BaseException as error:
        # On some damage its Rust code panics, and PyO3's PanicException is no Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise DataError(
            f"{place!r} is not a Lance data set or is damaged ({first_line(error)}); write it with: similis data pack"
        ) from error


@dataclass(frozen=True)
class LanceSource:
    """The ``bytes`` column of a Lance data set; rows are found by their id; ``mark`` is that of its version."""

    uri: str
    mark: str = ""
    forkable: bool = False  # its reader runs threads, which a fork does not copy

    def read(self, id: int, path: str) -> bytes:  # noqa: ARG002
        """The row's bytes, by random access."""
        with lance_errors(self.uri):
            data, positions = _lance(self.uri, self.mark, os.getpid())
            rows = data.take([positions[id]], columns=["bytes"])
        return bytes(rows.column("bytes")[0].as_py() or b"")

    def digests(self, ids: Sequence[int], paths: Sequence[str], *, verify: bool) -> list[str]:  # noqa: ARG002
        """The hash of every row's bytes."""
        version = tree_version(self.uri)
        found = known_digests(self.uri, dict.fromkeys(map(str, ids), version), self._compute, verify=verify)
        return [found[name] for name in map(str, ids)]

    def _compute(self, names: list[str]) -> dict[str, str]:  # noqa: ARG002
        found: dict[str, str] = {}
        with lance_errors(self.uri):
            for batch in import_extra("lance").dataset(self.uri).to_batches(columns=["id", "bytes"], batch_size=256):
                ids, images = (batch.column(name).to_pylist() for name in ("id", "bytes"))
                found |= {str(row): digest_of(image or b"") for row, image in zip(ids, images, strict=True)}
        return found


@lru_cache(maxsize=4)
def _lance(uri: str, mark: str, process: int) -> tuple[Any, dict[int, int]]:  # noqa: ARG001
    data = import_extra("lance").dataset(uri)
    ids = data.to_table(columns=["id"]).column("id").to_pylist()
    return data, dict(zip(ids, range(len(ids)), strict=True))
