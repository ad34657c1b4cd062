"""Where runs and their data are: folders with names, found by the address inside; paths that hold from any folder."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from similis.data.catalogue import known
from similis.data.own_data import OWN
from similis.data.sources import is_url
from similis.loss_file import MARK, split_place
from similis.run.spec import RunSpec, change
from similis.training.file_lock import hold_lock
from similis.training.files import explain_write_errors, replace_file
from similis.training.folder import RunFolder
from similis.training.rank_zero import is_first, wait_for_all
from similis.values import Communicator

ADDRESS = "address"  # the file of a run folder that says which run it is, whatever the folder is called


def find_run(root: Path, address: str) -> Path | None:
    """The folder of the run with this address, under whatever name; None if there is none."""
    held = []
    for file in root.glob(f"[!.]*/{ADDRESS}"):
        with suppress(OSError):  # a folder of this name, or gone meanwhile
            held += [file.parent] if file.read_bytes() == address.encode() else []
    return min(held, key=lambda path: (len(path.name), path.name), default=None)


def claim_run(root: Path, name: str, address: str, communicator: Communicator | None) -> RunFolder:
    """The folder of a run; a new run gets the next number of its name, as in ``runs/products-3``.

    Args:
        root: folder of all runs.
        name: what the run is called, without its number.
        address: of the run.
        communicator: the processes that share the run; the first makes the folder.
    """
    path = find_run(root, address)
    if is_first(communicator) and path is None:
        with explain_write_errors(root), hold_lock(root / ".lock"):
            if find_run(root, address) is None:  # no other process has begun the same run at this moment
                taken = (re.fullmatch(rf"{re.escape(name)}-(\d+)", found.name) for found in root.iterdir())
                number = 1 + max((int(found[1]) for found in taken if found), default=0)
                place = root / f"{name}-{number}" / ADDRESS
                replace_file(place, lambda beside: beside.write_text(address, encoding="utf-8"))
    wait_for_all(communicator)
    path = path or find_run(root, address)
    assert path is not None
    return RunFolder(path, address, writes=is_first(communicator))


@contextmanager
def sole_writer(folder: RunFolder, communicator: Communicator | None) -> Iterator[None]:
    """Hold a run folder while this run writes in it; wait until another process has left it.

    After a lost node its process may live on for a moment, and must not write beside its successor. The lock is
    the kernel's, so it ends with the process that holds it, however that ends.
    """
    with ExitStack() as held:
        if is_first(communicator):
            with explain_write_errors(folder.path):
                held.enter_context(hold_lock(folder.path / ".lock"))
        yield


def remove_unbegun(folder: RunFolder) -> None:
    """Remove the folder of a run that failed before its first checkpoint: there is nothing to resume."""
    if not any(folder.path.glob("*.safetensors")):
        shutil.rmtree(folder.path, ignore_errors=True)


def run_name(spec: RunSpec) -> str:
    """What a run is called: its data.

    Example:
        >>> from similis.run.spec import parse_spec
        >>> [run_name(parse_spec({"data": {"source": s}})) for s in ("photos/My products", "synthetic?classes=9", ".")]
        ['my-products', 'synthetic', 'run']
    """
    last = spec.data.source.partition("?")[0].rstrip("/").rpartition("/")[2]
    return re.sub(r"[^a-z0-9_]+", "-", Path(last).stem.lower()).strip("-") or "run"


def with_whole_paths(spec: RunSpec) -> RunSpec:
    """The specification with absolute paths of data, weights, loss and class similarities: it holds from any folder."""
    source, weights = spec.data.source, spec.model.weights
    named = {
        "data.source": None if source.partition("?")[0] in known or source == OWN or is_url(source) else source,
        "model.weights": None if weights == "pretrained" else weights,
        "objective.language": spec.objective.language,
        "data.exclude": spec.data.exclude,
    }
    whole = {key: str(Path(name).resolve()) for key, name in named.items() if name and Path(name).exists()}
    if MARK in spec.objective.loss:
        whole["objective.loss"] = ":".join(map(str, split_place(spec.objective.loss)))
    return change(spec, whole)
