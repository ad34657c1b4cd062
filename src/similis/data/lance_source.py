"""Images as rows of a Lance data set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from similis.data.content import digest_of, known_digests
from similis.data.extras import extra
from similis.data.sources import first_line, tree_version
from similis.values import DataError


@dataclass(frozen=True)
class LanceSource:
    """The ``bytes`` column of a Lance data set; rows are found by their id; ``mark`` is that of its version."""

    uri: str
    mark: str = ""
    forkable: bool = False  # its reader runs threads, which a fork does not copy

    def read(self, id: int, path: str) -> bytes:
        """The row's bytes, by random access."""
        data, positions = _lance(self.uri, self.mark, os.getpid())
        try:
            rows = data.take([positions[id]], columns=["bytes"])
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(f"{path!r} of {self.uri!r} cannot be read ({first_line(error)}); pack it again") from error
        return bytes(rows.column("bytes")[0].as_py() or b"")

    def digests(self, ids: Sequence[int], paths: Sequence[str], *, verify: bool) -> list[str]:  # noqa: ARG002
        """The hash of every row's bytes."""
        version = tree_version(self.uri)
        found = known_digests(self.uri, dict.fromkeys(map(str, ids), version), self._compute, verify=verify)
        return [found[name] for name in map(str, ids)]

    def _compute(self, names: list[str]) -> dict[str, str]:  # noqa: ARG002
        found = {}
        try:
            for batch in extra("lance").dataset(self.uri).to_batches(columns=["id", "bytes"], batch_size=256):
                ids, images = (batch.column(name).to_pylist() for name in ("id", "bytes"))
                found |= {str(row): digest_of(image or b"") for row, image in zip(ids, images, strict=True)}
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(f"{self.uri!r} cannot be read ({first_line(error)}); pack it again") from error
        return found


@lru_cache(maxsize=4)
def _lance(uri: str, mark: str, process: int) -> tuple[Any, dict[int, int]]:  # noqa: ARG001
    data = extra("lance").dataset(uri)
    ids = data.to_table(columns=["id"]).column("id").to_pylist()
    return data, dict(zip(ids, range(len(ids)), strict=True))
