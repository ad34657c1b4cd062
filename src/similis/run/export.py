"""Export: a finished run or a saved model becomes a bundle, with a gallery, thumbnails and a card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from similis.data.manifest import Manifest
from similis.data.open_data import open_data
from similis.run.answers import entries_of
from similis.run.bundle import make_thumbnail, read_thumbnails
from similis.run.bundle_files import ABOUT
from similis.run.finished import finished
from similis.run.load import load
from similis.run.machine import Machine
from similis.run.model import Model
from similis.values import DataError


def export_bundle(source: Path, out: Path, machine: Machine, *, gallery: str | None = None) -> dict[str, Any]:
    """Write a bundle.

    Args:
        source: folder of a finished run, or of a saved model.
        out: folder to write.
        machine: device, workers, data root.
        gallery: data to search in; None for the images of the run, or the gallery of the saved model.
    """
    model = load(source, device=machine.device, workers=machine.workers)
    data = open_gallery(source, gallery, machine)
    if data is None:
        ids = [entry.id for entry in model.gallery.contents().entries]
        thumbnails = dict(zip(ids, read_thumbnails(source), strict=False))
    else:
        model.remove([entry.id for entry in model.gallery.contents().entries])
        model.add(data)
        thumbnails = make_thumbnails(model, data)
    model.save(out, thumbnails=thumbnails)
    size = sum(file.stat().st_size for file in out.iterdir())
    return {"bundle": out, "images": len(model.gallery), "bytes": size, "model_hash": model.model_hash}


def open_gallery(source: Path, gallery: str | None, machine: Machine) -> Manifest | None:
    """The data to search in; None where a saved model keeps its own gallery."""
    if gallery is not None:
        return open_data(gallery, root=machine.data_root, allow_counts=True)
    if (source / ABOUT).exists():
        return None
    spec = finished(source).spec.data
    try:
        return open_data(spec.source, root=machine.data_root, allow_counts=spec.allow_counts)
    except DataError as error:
        raise DataError(f"{error} (the images of the run; if they were moved, say where with --gallery)") from error


def make_thumbnails(model: Model, data: Manifest) -> dict[str, bytes]:
    """A small picture of each image by its id; none for ready vectors."""
    if model.preprocessing is None:
        return {}
    return {entry.id: make_thumbnail(data.read_bytes(row)) for row, entry in enumerate(entries_of(data))}
