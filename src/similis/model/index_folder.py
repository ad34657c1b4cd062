"""An index in a folder: codes, vectors, ids and labels, and ``index.json``, which names their files and comes last.

So a reader, or a crash at any moment, finds the old index or the new one.
"""

from __future__ import annotations

import hashlib
import tempfile
import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel

from similis.engine.executor import Executor
from similis.model.bundle_files import check_kind, file_digest, version_of
from similis.model.vector_file import NamedVectors
from similis.retrieval.index import Index, as_rows, number_labels
from similis.retrieval.index_build import RowFile, build_codes
from similis.retrieval.index_choice import Choice, Target, choose_codes
from similis.retrieval.index_kinds import KINDS, read_codes, write_codes
from similis.retrieval.similarity import Similarity, check_dot_range, to_comparable
from similis.training.files import DamagedError, explain_write_errors, flush, in_one_line, replace_file
from similis.values import DataError, UserError, import_extra

ABOUT = "index.json"


class About(BaseModel):
    """What ``index.json`` holds: the index but for its rows, and size and sha256 of the files with these."""

    format: Literal["similis-index-2"] = "similis-index-2"
    kind: str
    effort: int
    similarity: Literal["cosine", "dot"]
    model_hash: str
    count: int
    dim: int
    labels: list[str | None]
    recall: float | None = None
    files: dict[str, tuple[int, str]]  # "vectors", "rows" and "codes" end their names
    checksum: str = ""

    def digest(self) -> str:
        """The sha256 of all but the checksum."""
        return hashlib.sha256(self.model_dump_json(exclude={"checksum"}).encode()).hexdigest()


class Layout(NamedTuple):
    """Vectors in a file, as they are compared; the labels that occur; the hash of the model; sha256 of the file."""

    rows: RowFile
    labels: list[str | None]
    model_hash: str
    digest: str

    def about(self, kind: str, effort: int, similarity: Similarity, recall: float | None = None) -> About:
        """What ``index.json`` says of an index of these vectors, but for its files."""
        return About(
            kind=kind, effort=effort, similarity=similarity, model_hash=self.model_hash, count=self.rows.total,
            dim=self.rows.dim, labels=self.labels, recall=recall, files={},
        )  # fmt: skip


class ArrowNames(Sequence[str]):
    """A column of texts in an Arrow file that stays on the disk."""

    def __init__(self, column: Any) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, row: Any) -> Any:
        return self.column[int(row)].as_py()

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and self.index(text) >= 0

    def index(self, text: str) -> int:  # type: ignore[override]
        """The row of a text, -1 if there is none."""
        return int(import_extra("pyarrow.compute").index(self.column, text).as_py())


def lay_out(blocks: Iterable[NamedVectors], place: Path, similarity: Similarity) -> Layout:
    """Write vectors as they are compared, ids and numbers of labels, block by block."""
    pa, digest, path = import_extra("pyarrow"), hashlib.sha256(), place / f"{uuid.uuid4().hex}.vectors"
    known, hashes, count, dim, model_hash = dict[str | None, int](), [np.empty(0, np.int64)], 0, 0, ""
    schema = pa.schema([("id", pa.string()), ("label", pa.int32())])
    with path.open("wb") as file, pa.ipc.new_file(str(path.with_suffix(".rows")), schema) as table:
        for block in blocks:
            rows = check_dot_range(to_comparable(block.vectors.float(), similarity)).numpy().tobytes()
            size = len(block.vectors)
            ids = [str(row) for row in range(count, count + size)] if block.ids is None else block.ids
            labels = [None] * size if block.labels is None else block.labels
            if dim not in (0, block.vectors.shape[1]):
                raise DataError(f"vectors have {dim} and {block.vectors.shape[1]} dimensions; index each kind apart")
            dim, model_hash, count = block.vectors.shape[1], block.model_hash, count + size
            table.write_batch(
                pa.record_batch([pa.array(ids, pa.string()), pa.array(number_labels(labels, known))], schema=schema)
            )
            hashes.append(np.fromiter(map(hash, ids), np.int64, size))  # 64 bits tell millions apart
            digest.update(rows)
            file.write(rows)
    if len(np.unique(np.concatenate(hashes))) < count:
        raise DataError(f"{count:,} vectors have fewer different ids; give every vector an id of its own")
    flush(path)
    return Layout(RowFile(path, count, dim), list(known), model_hash, digest.hexdigest())


def build_folder(
    blocks: Iterable[NamedVectors],
    folder: str | Path | None,
    *,
    target: Target,
    kinds: Sequence[str] = tuple(KINDS),
    queries: int = 1000,
    sample: int = 100_000,
    similarity: Similarity = "cosine",
    executor: Executor | None = None,
) -> tuple[Choice, int, int]:
    """Choose codes as :func:`similis.retrieval.index_choice.choose_codes` does, for vectors that come in blocks.

    Memory is that of a sample and of the codes. Nothing is written if no kind meets the target, or without a folder.

    Returns:
        The choice, the number of vectors, and their dimensions.
    """
    with tempfile.TemporaryDirectory(dir=None if folder is None else existing_parent(Path(folder))) as scratch:
        place = Path(scratch)
        with explain_write_errors(place):
            laid = lay_out(blocks, place, similarity)
        build = partial(build_codes, executor=executor, scratch=place)
        found = choose_codes(laid.rows, target=target, kinds=kinds, queries=queries, sample=sample, build=build)
        if folder is not None and found.met:
            best = found.best
            write_folder(Path(folder), laid, found.codes, laid.about(best.kind, best.effort, similarity, best.lower))
        return found, laid.rows.total, laid.rows.dim


def existing_parent(folder: Path) -> Path:
    """The folder, or the nearest above it that is there: a file moves from it without being copied."""
    return next(each for each in (folder.absolute(), *folder.absolute().parents) if each.is_dir())


def write_folder(place: Path, laid: Layout, codes: Any, about: About) -> None:
    """Move what is laid out into a folder, write the codes, then the list of both; what it replaces goes last."""
    old, token = read_file_names(place), laid.rows.path.with_suffix("")
    try:
        with explain_write_errors(place):
            place.mkdir(parents=True, exist_ok=True)
            if codes is not None:
                write_codes(codes, token.with_suffix(".codes"))
            for ending in (".vectors", ".rows", *([".codes"] if codes is not None else [])):
                source = token.with_suffix(ending)
                flush(source)
                digest = laid.digest if ending == ".vectors" else file_digest(source)
                about.files[source.name] = (source.stat().st_size, digest)
                source.replace(place / source.name)
        about.checksum = about.digest()
        replace_file(place / ABOUT, lambda beside: beside.write_text(about.model_dump_json(), encoding="utf-8"))
    except BaseException:
        for left in place.glob(f"{token.name}.*"):
            left.unlink(missing_ok=True)
        raise
    for name in old:
        (place / name).unlink(missing_ok=True)


def save_index(index: Index, folder: str | Path) -> Path:
    """Write an index to a folder, made if it is not there; an older index is replaced in one step, all else stays."""
    place = Path(folder)
    with tempfile.TemporaryDirectory(dir=existing_parent(place)) as scratch:
        labels = [index.names[number] for number in index.numbers]
        held = NamedVectors(index.stored, [index.ids[row] for row in range(len(index))], labels, index.model_hash)
        laid = lay_out([held], Path(scratch), index.similarity)
        write_folder(place, laid, index.codes, laid.about(index.kind, index.effort, index.similarity))
    return place


def read_file_names(place: Path) -> list[str]:
    """The files that ``index.json`` in a folder names; none where it names none in this folder."""
    try:
        found = About.model_validate_json((place / ABOUT).read_bytes()).files
    except (OSError, ValueError):
        return []
    return [name for name in found if name == Path(name).name]


def load_index(folder: str | Path, *, model_hash: str | None = None, verify: bool = False) -> Index:
    """Open an index that :func:`save_index` or ``similis index`` wrote; codes, vectors and ids stay on the disk.

    Open only folders that you trust: a checksum finds damage, and no forgery.

    Args:
        folder: of the index.
        model_hash: of the model that your queries come from (:attr:`similis.Model.model_hash`); an index of another
            model's vectors raises an error. None does not ask.
        verify: read all files and compare their hashes; otherwise sizes alone are compared.

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
    before = version_of(place / ABOUT)
    try:
        about = About.model_validate_json((place / ABOUT).read_bytes())
        check_files(about, place, verify=verify)
        index = open_files(about, place)
    except (RuntimeError, OSError, ValueError, import_extra("pyarrow").ArrowException) as error:
        if before != version_of(place / ABOUT):  # another process has replaced it meanwhile
            return load_index(folder, model_hash=model_hash, verify=verify)
        words = f"the index in {place} is damaged ({in_one_line(error)}); build it again with similis index"
        raise DamagedError(words) from error
    if model_hash is not None and about.model_hash != model_hash:
        made = f"of model {about.model_hash[:12]}" if about.model_hash else "without the hash of their model"
        raise UserError(
            f"{place} holds vectors {made}, and your queries are of model {model_hash[:12]}; their similarities mean "
            "nothing: embed and index with one model"
        )
    return index


def check_files(about: About, place: Path, *, verify: bool) -> None:
    """Raise a ValueError unless the files are those that were written."""
    wrong = about.digest() != about.checksum or about.kind not in KINDS
    for name, (size, digest) in about.files.items():
        if name != Path(name).name:
            raise ValueError(f"it names {name!r}")
        check_kind(place / name)
        wrong = wrong or (place / name).stat().st_size != size or (verify and file_digest(place / name) != digest)
    if wrong:
        raise ValueError("its checksum is not that of its contents")


def open_files(about: About, place: Path) -> Index:
    """The index of files that were checked; a ValueError if they do not fit together."""
    pa, found = import_extra("pyarrow"), {name.rpartition(".")[2]: place / name for name in about.files}
    if not {"vectors", "rows"} <= found.keys():
        raise ValueError(f"it names the files {sorted(about.files)}")
    table = pa.ipc.open_file(pa.memory_map(str(found["rows"]))).read_all()
    held = read_codes(found["codes"], memory_map=True) if "codes" in found else None
    if len(table) != about.count or (held is not None and held.ntotal != about.count):
        raise ValueError(f"it has {about.count} vectors and {len(table)} ids")
    stored = as_rows(RowFile(found["vectors"], about.count, about.dim))
    numbers = table.column("label").to_numpy()
    return Index(
        held, stored, ArrowNames(table.column("id")), numbers, about.labels, kind=about.kind, effort=about.effort,
        similarity=about.similarity, model_hash=about.model_hash,
    )  # fmt: skip
