"""The store of a collection that is about to be served."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

from similis.model.bundle import read_thumbnails
from similis.model.collection_file import prepared_file
from similis.model.model import Model
from similis.model.model_folder import entries_hash
from similis.retrieval.gallery import Entry, Gallery
from similis.serving.store import Item, Store
from similis.values import UserError

logger = logging.getLogger(__name__)
PATIENCE = 20.0  # seconds that an upgrade may hold the file


def hold_store(file: Path, *, read_only: bool) -> Store:
    """The file of a collection, after the moment in which an upgrade may hold it."""
    until = time.perf_counter() + PATIENCE
    while True:
        try:
            return Store(file, read_only=read_only)
        except UserError:
            if time.perf_counter() > until or not prepared_file(file).exists():
                raise
            time.sleep(0.1)


def open_store(model: Model, folder: Path, store: Store) -> None:
    """Open the store of a collection: the gallery of its model is what it holds from now on."""
    first = model.gallery.contents().entries
    try:
        is_known = store.open(model.model_hash, model.dim, first_items(model, folder), entries_hash(first))
    except BaseException:
        store.close()
        raise
    model.gallery = Gallery(model.dim)
    model.gallery.add(*store.load())
    if not is_known:
        logger.warning(
            "%s holds %d items, and %s was exported since with %d: these are not read; to serve them, move the "
            "first file away or give another one with --store", store.path, len(model.gallery), folder, len(first),
        )  # fmt: skip


def first_items(model: Model, folder: Path) -> Iterator[Item]:
    """What a new collection holds: the gallery of the saved model with its small pictures."""
    held = model.gallery.contents()
    pictures = read_thumbnails(folder) or [b""] * len(held.entries)
    for entry, vector, picture in zip(held.entries, held.vectors, pictures, strict=True):
        yield Item(Entry(*entry), vector, picture)
