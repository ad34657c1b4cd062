"""An index in a folder: written beside its place and renamed, with checksums and the hash of its model.

``index.json`` names the files of codes and ids with their sha256. It is replaced last and in one step: a reader, or a
crash at any moment, finds the old index or the new one.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from similis.retrieval.faiss_index import KINDS, read_handle, write_handle
from similis.retrieval.index import Index
from similis.run.bundle_files import check_kind, file_digest
from similis.training.files import DamagedError, in_one_line, replace_file
from similis.training.folder import RunFolder
from similis.values import DataError, UserError

ABOUT = "index.json"
SUFFIXES = (".faiss", ".entries.json")


class About(BaseModel):
    """What ``index.json`` holds; ``files`` are the names of codes and entries with their sha256."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["similis-index-1"] = "similis-index-1"
    kind: str
    effort: int
    similarity: Literal["cosine", "dot"]
    dim: int
    model_hash: str
    files: dict[str, str]


class Entries(BaseModel):
    """Ids and labels of all rows, and the rows that were removed."""

    ids: list[str]
    labels: list[str | None]
    removed: list[int]


def save_index(index: Index, folder: str | Path) -> Path:
    """Write an index to a folder; an older index there is replaced in one step.

    Args:
        index: from :func:`similis.retrieval.index.build_index` or :func:`~similis.retrieval.index_choice.choose_index`.
        folder: made if it is not there.
    """
    place, stem = Path(folder), uuid.uuid4().hex[:12]
    codes, entries = (place / f"{stem}{suffix}" for suffix in SUFFIXES)
    old = [] if not place.is_dir() else [file for file in place.iterdir() if file.name.endswith(SUFFIXES)]
    text = Entries(ids=index.ids, labels=index.labels, removed=index.removed).model_dump_json()
    replace_file(codes, lambda beside: write_handle(index.handle, beside))
    replace_file(entries, lambda beside: beside.write_text(text, encoding="utf-8"))
    files = {file.name: file_digest(file) for file in (codes, entries)}
    about = About(
        kind=index.kind, effort=index.effort, similarity=index.similarity, dim=index.dim, model_hash=index.model_hash,
        files=files,
    )  # fmt: skip
    RunFolder(place).write(ABOUT, about.model_dump())
    for file in old:
        file.unlink(missing_ok=True)
    return place


def load_index(folder: str | Path, *, model_hash: str | None = None, memory_map: bool = True) -> Index:
    """Open an index that :func:`save_index` or ``similis index`` wrote, after its checksums were seen to agree.

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
    about, codes, entries = read_about(place)
    if model_hash is not None and about.model_hash != model_hash:
        made = f"of model {about.model_hash[:12]}" if about.model_hash else "without the hash of their model"
        raise UserError(
            f"{place} holds vectors {made}, and your queries are of model {model_hash[:12]}; their similarities mean "
            "nothing: embed and index with one model"
        )
    try:
        handle = read_handle(codes, memory_map=memory_map)
        parsed = Entries.model_validate(json.loads(entries.read_text(encoding="utf-8")))
    except (RuntimeError, OSError, ValueError) as error:
        raise index_damage(place, error) from error
    if not handle.ntotal == len(parsed.ids) == len(parsed.labels) or handle.d != about.dim or about.kind not in KINDS:
        raise index_damage(place, f"{handle.ntotal} vectors of {about.kind!r} and {len(parsed.ids)} ids do not agree")
    return Index(
        handle, parsed.ids, parsed.labels, kind=about.kind, effort=about.effort, similarity=about.similarity,
        model_hash=about.model_hash, removed=parsed.removed, read_only=memory_map,
    )  # fmt: skip


def read_about(place: Path) -> tuple[About, Path, Path]:
    """What an index states of itself, and its files after their checksums were compared."""
    try:
        about = About.model_validate(json.loads((place / ABOUT).read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise index_damage(place, error) from error
    names = sorted(about.files, key=lambda name: name.endswith(SUFFIXES[1]))
    if [Path(name).name.partition(".")[1:] for name in names] != [(".", suffix[1:]) for suffix in SUFFIXES]:
        raise index_damage(place, f"it names the files {names}")
    for name in names:
        file = place / Path(name).name
        if not file.exists():
            raise index_damage(place, f"{name} is not there")
        check_kind(file)
        if file_digest(file) != about.files[name]:
            raise index_damage(place, f"the checksum of {name} is not the one in {ABOUT}")
    return about, place / names[0], place / names[1]


def index_damage(place: Path, why: object) -> DamagedError:
    """The error about an index that cannot be used."""
    return DamagedError(f"the index in {place} is damaged ({in_one_line(why)}); build it again with similis index")
