"""An index in a folder: a file of codes and vectors, and ``index.json``, which names it and is replaced last.

So a reader, or a crash at any moment, finds the old index or the new one.
"""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from similis.model.bundle_files import check_kind, file_digest
from similis.retrieval.index import Index
from similis.retrieval.index_kinds import KINDS, read_handle, write_handle
from similis.training.files import DamagedError, in_one_line, replace_file
from similis.values import DataError, UserError

ABOUT = "index.json"


class About(BaseModel):
    """What ``index.json`` holds; ``codes`` names the other file, ``checksum`` is over both."""

    format: Literal["similis-index-1"] = "similis-index-1"
    kind: str
    effort: int
    similarity: Literal["cosine", "dot"]
    model_hash: str
    ids: list[str]
    labels: list[str | None]
    removed: list[int]
    codes: str
    checksum: str = ""

    def digest(self, place: Path) -> str:
        """The sha256 of all but the checksum, and of the codes."""
        words = self.model_dump_json(exclude={"checksum"}) + file_digest(place / self.codes)
        return hashlib.sha256(words.encode()).hexdigest()


def save_index(index: Index, folder: str | Path) -> Path:
    """Write an index to a folder, made if it is not there; an older index is replaced in one step, all else stays."""
    place, codes = Path(folder), f"{uuid.uuid4().hex}.faiss"
    old = read_codes_name(place)
    try:
        replace_file(place / codes, lambda beside: write_handle(index.handle, beside))
        about = About(
            kind=index.kind, effort=index.effort, similarity=index.similarity, model_hash=index.model_hash,
            ids=index.ids, labels=index.labels, removed=index.removed, codes=codes,
        )  # fmt: skip
        about.checksum = about.digest(place)
        replace_file(place / ABOUT, lambda beside: beside.write_text(about.model_dump_json(), encoding="utf-8"))
    except BaseException:
        (place / codes).unlink(missing_ok=True)
        raise
    if old is not None:
        (place / old).unlink(missing_ok=True)
    return place


def read_codes_name(place: Path) -> str | None:
    """The file of codes that ``index.json`` in a folder names; None where it names none in this folder."""
    try:
        found = About.model_validate_json((place / ABOUT).read_bytes()).codes
    except (OSError, ValueError):
        return None
    return found if found == Path(found).name else None


def load_index(folder: str | Path, *, model_hash: str | None = None, memory_map: bool = True) -> Index:
    """Open an index that :func:`save_index` or ``similis index`` wrote, after its checksum was seen to agree.

    Open only folders that you trust: a checksum finds damage, and no forgery.

    Args:
        folder: of the index.
        model_hash: of the model that your queries come from (:attr:`similis.Model.model_hash`); an index of another
            model's vectors raises an error. None does not ask.
        memory_map: leave codes and vectors on the disk until a search needs them. Such an index is read-only.

    Example:
        >>> import tempfile, torch
        >>> from similis.retrieval.index import build_index
        >>> with tempfile.TemporaryDirectory() as place:
        ...     index = load_index(save_index(build_index(torch.eye(3), ["a", "b", "c"]), place))
        ...     index.ids[index.search(torch.eye(3)[1:2], 1).index[0, 0]]
        'b'
    """
    place = Path(folder)
    if not (place / ABOUT).is_file():
        raise DataError(f"no index at {place}; build one there: similis index VECTORS --out {place}")
    try:
        about = About.model_validate_json((place / ABOUT).read_bytes())
        check_kind(place / Path(about.codes).name)
        if about.codes != Path(about.codes).name or about.kind not in KINDS or about.digest(place) != about.checksum:
            raise ValueError("its checksum is not that of its contents")
        handle = read_handle(place / about.codes, memory_map=memory_map)
        if not handle.ntotal == len(about.ids) == len(about.labels):
            raise ValueError(f"it has {handle.ntotal} vectors, {len(about.ids)} ids and {len(about.labels)} labels")
    except (RuntimeError, OSError, ValueError) as error:
        words = f"the index in {place} is damaged ({in_one_line(error)}); build it again with similis index"
        raise DamagedError(words) from error
    if model_hash is not None and about.model_hash != model_hash:
        made = f"of model {about.model_hash[:12]}" if about.model_hash else "without the hash of their model"
        raise UserError(
            f"{place} holds vectors {made}, and your queries are of model {model_hash[:12]}; their similarities mean "
            "nothing: embed and index with one model"
        )
    return Index(
        handle, about.ids, about.labels, kind=about.kind, effort=about.effort, similarity=about.similarity,
        model_hash=about.model_hash, removed=about.removed, read_only=memory_map,
    )  # fmt: skip
