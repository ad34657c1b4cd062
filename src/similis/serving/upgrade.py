"""A collection moves to another model: its images are embedded beside the server, then all vectors change at once.

Vectors of the new model wait in a file of their own, so a killed upgrade goes on where it was. The server that holds
the collection makes the change when it finds a request for it; without a server the upgrade makes it itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from similis.data.manifest import Manifest
from similis.model.bundle_files import holds_model
from similis.model.collection_file import later_model, prepared_file, read_about, served_model
from similis.model.export import choose_threshold, open_gallery
from similis.model.load import load
from similis.model.model import Model
from similis.run.machine import Machine
from similis.serving.prepared import Images, Prepared, complete_vectors, embed_entries, switch_store
from similis.serving.store import Store
from similis.training.file_lock import hold_lock
from similis.training.files import replace_file
from similis.values import DataError, UserError

BATCH = 256  # images embedded before they are kept
FEW = 64  # that the switch itself may embed
PAUSE = 0.2  # seconds between two looks for the server's answer


class Upgraded(NamedTuple):
    """What an upgrade did: items in all, those embedded now, those whose vectors are mapped, and both models."""

    items: int
    embedded: int
    mapped: int
    model_hash: str
    previous: str


def upgrade_collection(
    folder: Path,
    run: Path | None,
    *,
    file: Path,
    data: Manifest | None,
    device: str = "auto",
    on_items: Callable[[int, int], None] = lambda _done, _all: None,
) -> Upgraded:
    """Embed a collection by another model while it is served, and switch to it.

    Args:
        folder: the bundle.
        run: a finished run or a saved model; None for the model before the last switch.
        file: of the collection.
        data: images, found by their contents.
        device: that embeds.
        on_items: called with the numbers of items done and wanted.
    """
    about = read_about(file)
    if not about:
        raise UserError(f"{file} is no collection yet; start it once with: similis serve {folder}")
    if run is None and "previous" not in about:
        raise UserError(f"{file} was never upgraded, so there is no model to go back to; give --model")
    before = about["model_hash"]
    model = load(served_model(folder, file, about["previous"]) if run is None else run, device=device)
    model.name = model.name if run is None or holds_model(run) else run.resolve().name
    if model.model_hash == before:
        raise UserError(f"{file} holds vectors of this model already ({before[:12]}); give another one with --model")
    with hold_lock(Path(f"{file}-upgrade.lock"), busy=f"another upgrade of {file} is under way; wait for it"):
        prepared = Prepared(file, model.model_hash)
        with closing(prepared):
            embedded = prepare_vectors(file, prepared, model, data, on_items)
            keep_model(file, prepared, model)
        if not switch_here(file, model.model_hash):
            wait_for_server(file, model.model_hash)
        prepared_file(file).unlink(missing_ok=True)
    with closing(Store(file, read_only=True)) as store:
        return Upgraded(len(store.load()[1]), embedded, len(store.mapped()), model.model_hash, before)


def open_images(run: Path | None, images: str | None, root: str | None) -> Manifest | None:
    """The images that items are found in by their contents: those named, or else those of the run."""
    if images is None and (run is None or holds_model(run)):
        return None
    return open_gallery(run or Path(), images, Machine(data_root=root))  # the run is asked only without images


def prepare_vectors(
    file: Path, prepared: Prepared, model: Model, data: Manifest | None, on_items: Callable[[int, int], None]
) -> int:
    """Embed what can be and is not yet; passes end when few items have come meanwhile. How many were embedded."""
    embedded, failed = 0, set[tuple[str, str]]()
    with closing(Store(file, read_only=True)) as store:
        images = Images(store, data)
        if read_about(file).get("previous") == model.model_hash:
            prepared.add(store.previous())
        while True:
            known, kept, held = prepared.rows().keys() | failed, store.original_sizes(), store.load()[1]
            missing = [entry for entry in held if (entry.id, entry.digest) not in known and images.has(entry, kept)]
            for start in range(0, len(missing), BATCH):
                part = missing[start : start + BATCH]
                rows = list(embed_entries(model, part, images))
                prepared.add(rows)
                failed |= {(entry.id, entry.digest) for entry in part} - {(name, digest) for name, digest, _ in rows}
                embedded += len(rows)
                on_items(len(held) - len(missing) + start + len(part), len(held))
            if len(missing) <= FEW:
                break
    if not prepared.rows():
        raise UserError(
            f"none of the {len(held)} items of {file} can be embedded again: no image of --images has their contents, "
            "and the server kept none (similis serve --keep-images)"
        )
    return embedded


def keep_model(file: Path, prepared: Prepared, model: Model) -> None:
    """Save the new model beside the collection, with the vectors that it is going to serve."""
    with closing(Store(file, read_only=True)) as store:
        vectors, entries = store.load()
    found = complete_vectors(vectors, entries, prepared.rows(), model.dim)
    model.gallery.remove([entry.id for entry in model.gallery.contents().entries])
    model.gallery.add(found.vectors, entries)
    if model.chosen is None:
        choose_threshold(model)
    model.save(later_model(file, model.model_hash))


def switch_here(file: Path, model_hash: str) -> bool:
    """Make the switch in this process, where no server holds the collection; False where one does."""
    try:
        store = Store(file)
    except UserError:  # it is used by a server
        return False
    with closing(store):
        if read_about(file).get("model_hash") == model_hash:  # a server that has ended since has done it
            return True
        if store.refusal:
            raise UserError(f"{file} takes no changes: {store.refusal}")
        switch_store(store, file, load(later_model(file, model_hash)))
        request_of(file).unlink(missing_ok=True)
    return True


def request_of(file: Path) -> Path:
    """Where a server is asked for a switch."""
    return Path(f"{file}-switch")


def read_request(file: Path) -> dict[str, Any]:
    """What is asked of the server; nothing where nothing is."""
    with suppress(OSError, ValueError):
        found = json.loads(request_of(file).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def write_request(file: Path, **values: str) -> None:
    """Ask the server for a switch, or say why there was none."""
    replace_file(request_of(file), lambda beside: beside.write_text(json.dumps(values), encoding="utf-8"))


def wait_for_server(file: Path, model_hash: str) -> None:
    """Ask the server that holds the collection for the switch, and wait for it; if the server ends, switch here."""
    write_request(file, model_hash=model_hash)
    while read_about(file).get("model_hash") != model_hash:
        time.sleep(PAUSE)
        asked = read_request(file)
        if "error" in asked:
            request_of(file).unlink(missing_ok=True)
            raise DataError(f"the server did not switch: {asked['error']}")
        if switch_here(file, model_hash):
            return
