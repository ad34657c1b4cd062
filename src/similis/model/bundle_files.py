"""The files of a saved model: which there may be, and the checks before any of them is used.

Nothing in a saved model is executed: weights and vectors are safetensors, all else is JSON or bytes. Checksums find
damage, not forgery; sizes and shapes are checked so that a forged file is refused before memory is spent on it.
"""

from __future__ import annotations

import hashlib
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor

from similis.retrieval.gallery import Entry
from similis.run.trained_on import TRAINED
from similis.training.file_lock import hold_lock
from similis.training.files import damage_error, explain_write_errors, flush_folder
from similis.training.folder import RunFolder
from similis.training.tensors import read_tensors
from similis.values import DataError, UserError

FORMAT = "similis-model-2"
ABOUT, WEIGHTS, GALLERY, ENTRIES = "model.json", "model.safetensors", "gallery.safetensors", "gallery.json"
THRESHOLD, RATES, THUMBNAILS = "threshold.json", "rates.json", "thumbnails.safetensors"
CARD, ONNX, CHECKSUMS = "README.md", "model.onnx", "checksums.json"
NEEDED = (ABOUT, WEIGHTS, GALLERY, ENTRIES, CHECKSUMS)
FILES = (*NEEDED, THRESHOLD, RATES, THUMBNAILS, CARD, ONNX, TRAINED)
STAGED = ".new-"  # begins the name of the folder that a model is written to first
LOCK = ".lock"  # who saves, or finishes a save, takes turns
WHOLE = ".whole"  # folder of a finished save whose files are being moved to their places
STORE = "collection.sqlite"  # of a server, beside the bundle; so are files that begin with this name
MOST_JSON, MOST_HEADER, MOST_ENTRY = 2**26, 2**23, 2**13  # bytes: of a JSON file, of a header, of an entry

T = TypeVar("T")
TRIES = 20  # of reading a folder that another process replaces again and again
Shapes = Mapping[str, tuple[str, tuple[int, ...]]]  # name of a tensor -> type and shape


@contextmanager
def stage_files(path: Path) -> Iterator[Path]:
    """A hidden folder for the files of a model, which replace those in ``path`` if the block ends without an error."""
    with explain_write_errors(path), hold_lock(path / LOCK):
        adopt_staged(path)  # what an earlier save has left
        for left in path.glob(f"{STAGED}*"):  # the process that wrote it held the lock, so it was killed
            shutil.rmtree(left, ignore_errors=True)
        staged = Path(tempfile.mkdtemp(prefix=STAGED, dir=path))
        try:
            yield staged
            flush_folder(staged)
            staged.rename(path / WHOLE)  # from here on the new model counts
            flush_folder(path)
            adopt_staged(path)
        finally:
            shutil.rmtree(staged, ignore_errors=True)


def adopt_staged(path: Path) -> None:
    """Move the files of a save that is whole to their places; after a crash the next reader goes on with it.

    Files of an older model that the new one does not have are removed first. Each step may be repeated. The caller
    holds the lock: a list read here and used after the next save would remove files of that one.
    """
    whole = path / WHOLE
    if not whole.is_dir() or whole.is_symlink():
        return
    if (whole / CHECKSUMS).exists():
        for name in set(FILES) - {CHECKSUMS, *read_json(whole / CHECKSUMS)}:
            (path / name).unlink(missing_ok=True)
    for name in sorted(FILES, key=lambda name: name == CHECKSUMS):  # the list last: it says what is to be removed
        with suppress(FileNotFoundError):
            (whole / name).replace(path / name)
    flush_folder(path)
    with suppress(OSError):
        whole.rmdir()


def holds_model(path: Path) -> bool:
    """Whether a folder holds a saved model, after what a killed process has left of a save was finished."""
    if (path / WHOLE).is_dir():
        with explain_write_errors(path), hold_lock(path / LOCK):
            adopt_staged(path)
    return (path / ABOUT).exists()


def read_whole(path: Path, read: Callable[[], T]) -> T:
    """What ``read`` makes of a saved model; read again if another process has replaced the files meanwhile."""
    for _ in range(TRIES):
        before = version_of(path / CHECKSUMS)
        try:
            found = read()
        except (DataError, FileNotFoundError):
            if version_of(path / CHECKSUMS) == before and not (path / WHOLE).exists():
                raise
        else:
            if version_of(path / CHECKSUMS) == before:
                return found
        holds_model(path)  # finish what the other process has begun
    return read()


def version_of(listing: Path) -> tuple[int, int] | None:
    """What changes when the list of files of a model or an index is replaced, and with it all that it names."""
    with suppress(OSError):
        facts = listing.stat()
        return facts.st_ino, facts.st_mtime_ns
    return None


def check_files(path: Path) -> None:
    """All checks of a saved model that need no tensor: format, names, kinds and sizes, checksums."""
    for file in sorted(path.iterdir()):
        if file.name in FILES:
            check_kind(file)
    about = read_json(path / ABOUT)
    if about.get("format") != FORMAT:
        raise damage_error(path / ABOUT, f"its format is {about.get('format')!r}, and this version reads {FORMAT}")
    check_names(path)
    if (path / TRAINED).exists():
        check_lists(path / TRAINED, {"contents": "U8", "classes": "U8"})
    check_checksums(path)


def check_kind(file: Path) -> None:
    """A plain file: no link, which may lead anywhere, and no pipe, which may never end."""
    mode = file.lstat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "no file"
        raise damage_error(file, f"it is {kind}; a bundle holds plain files")
    if file.suffix == ".json" and file.name != ENTRIES and file.stat().st_size > MOST_JSON:
        raise damage_error(file, f"it has {file.stat().st_size:,} bytes; at most {MOST_JSON:,} are allowed")


def check_names(path: Path) -> None:
    """The files of a bundle and no others."""
    for name in foreign_names(path):
        raise damage_error(path / name, "a bundle holds no file of this name; move it elsewhere")
    for name in NEEDED:
        if not (path / name).exists():
            raise damage_error(path / name, "the bundle is not complete")


def check_target(path: Path) -> None:
    """A folder that a model may be written to: nothing else would be taken for a part of it."""
    for name in foreign_names(path) if path.exists() else ():
        raise UserError(f"{path} holds {name!r}, which is no file of a saved model; give a folder of its own")


def foreign_names(path: Path) -> list[str]:
    """Names that are not a bundle's; hidden files and the store of a server are not read and may stay."""
    names = sorted(file.name for file in path.iterdir())
    return [name for name in names if name not in FILES and not name.startswith((".", STORE))]


def check_checksums(path: Path) -> None:
    """Every file is listed and is what was written."""
    listed = read_json(path / CHECKSUMS)
    there = {name for name in FILES if name != CHECKSUMS and (path / name).exists()}
    for name in sorted(there ^ listed.keys(), key=str):
        words = "is there and not listed" if name in there else "is listed and not there"
        raise damage_error(path / CHECKSUMS, f"{name!r} {words}")
    for name in sorted(there):
        if listed[name] != file_digest(path / name):
            raise damage_error(path / name, f"its checksum is not the one in {CHECKSUMS}")


def write_checksums(path: Path) -> None:
    """List the sha256 of every other file; written last, so that a bundle that has it is whole."""
    listed = {name: file_digest(path / name) for name in FILES if name != CHECKSUMS and (path / name).exists()}
    RunFolder(path).write(CHECKSUMS, listed)


def file_digest(path: Path) -> str:
    """The sha256 of a file, read in parts."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(file: Path) -> dict[str, Any]:
    """The mapping in a JSON file that has to be there."""
    values = RunFolder(file.parent).read(file.name)
    if values is None:
        raise damage_error(file, "the bundle is not complete")
    return values


def read_shapes(file: Path) -> Shapes:
    """Types and shapes of the tensors of a safetensors file, without reading one."""
    try:
        with file.open("rb") as opened:
            size = int.from_bytes(opened.read(8), "little")
        if size > MOST_HEADER:
            raise damage_error(file, f"its header claims {size:,} bytes; at most {MOST_HEADER:,} are allowed")
        with safe_open(file, framework="pt") as tensors:
            slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118
            return {name: (each.get_dtype(), tuple(each.get_shape())) for name, each in slices.items()}
    except (OSError, SafetensorError) as error:
        raise damage_error(file, error) from error


def check_lists(file: Path, kinds: Mapping[str, str]) -> None:
    """Raise unless a safetensors file holds tensors (n,) of these names and types, before they are read."""
    shapes = read_shapes(file)
    if {name: (kind, len(shape)) for name, (kind, shape) in shapes.items()} != {n: (k, 1) for n, k in kinds.items()}:
        raise damage_error(file, f"it holds {dict(shapes)}, and not lists {dict(kinds)}")


def read_lists(file: Path, contents: str, kinds: Mapping[str, str]) -> dict[str, Tensor]:
    """The tensors (n,) of these types of a safetensors file; one that holds others is refused before they are read."""
    check_kind(file)
    check_lists(file, kinds)
    return read_tensors(file, contents)[0]


def check_gallery(path: Path, dim: int) -> int:
    """The number N of gallery rows, after the shapes of vectors and the size of their entries are seen to agree."""
    found = read_shapes(path / GALLERY)
    kind, shape = found.get("vectors", ("", ()))
    if kind != "F32" or len(shape) != 2 or shape[1] != dim:
        raise damage_error(path / GALLERY, f"its vectors are {kind} {shape}, and the network gives (N, {dim})")
    most = MOST_JSON // 64 + MOST_ENTRY * shape[0]
    size = (path / ENTRIES).stat().st_size
    if size > most:
        raise damage_error(path / ENTRIES, f"it has {size:,} bytes for {shape[0]:,} vectors; {most:,} are allowed")
    return shape[0]


def parse_entries(path: Path, values: Any, count: int) -> list[Entry]:
    """Ids, labels and hashes of ``count`` gallery rows."""
    try:
        found = TypeAdapter(list[Entry]).validate_python(values)
    except ValidationError as error:
        raise damage_error(path / ENTRIES, error) from error
    if not len(found) == count == len({entry.id for entry in found}):
        raise damage_error(path / ENTRIES, f"it does not hold {count:,} entries with an id of their own each")
    return found
