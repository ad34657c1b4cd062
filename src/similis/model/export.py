"""Export: a finished run or a saved model becomes a bundle with gallery, thumbnails, threshold and card."""

from __future__ import annotations

import csv
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from similis.data.manifest import Manifest
from similis.data.open_data import open_data
from similis.model.bundle import labelled_sample, make_thumbnail, read_thumbnails
from similis.model.bundle_files import CARD, STORE, check_target, holds_model
from similis.model.collection_file import check_collection, check_unserved
from similis.model.encoding import Encoder
from similis.model.finished import finished
from similis.model.load import load
from similis.model.model import Model
from similis.model.model_card import NOT_STATED, kept_record, model_card, run_record
from similis.model.onnx_export import export_onnx
from similis.model.verification import say_seen, threshold_of
from similis.retrieval.gallery import entries_of
from similis.retrieval.verification import verify
from similis.run.machine import Machine
from similis.run.result import RunResult
from similis.values import DataError, UserError

FAR, LARGER_FARS = 1e-2, (1e-1,)  # of the threshold that is chosen where a run has none; 1e-3 dims most right answers
PROVED = 8  # images that ONNX Runtime and PyTorch both embed


class Exported(NamedTuple):
    """A bundle: its folder, images and bytes, the model's hash, and what was measured on the way, or None."""

    bundle: Path
    images: int
    bytes: int
    model_hash: str
    threshold: float | None
    onnx_difference: float | None


def export_bundle(
    source: Path,
    out: Path,
    machine: Machine,
    *,
    gallery: str | None = None,
    onnx: bool = False,
    licence: str = NOT_STATED,
    keep_trained: bool = False,
) -> Exported:
    """Write a bundle, see :mod:`similis.model.bundle_files`.

    Args:
        source: folder of a finished run, or of a saved model.
        out: folder to write.
        machine: device, workers, data root.
        gallery: data to search in; None for the images of the run, or the gallery of the saved model.
        onnx: write the network as ONNX too.
        licence: for the card.
        keep_trained: choose the threshold on classes that trained the model, too, where there is none; it says so.
    """
    check_target(out)  # before hours of work
    check_unserved(out / STORE)
    result = None if holds_model(source) else finished(source)
    model = load(source, device=machine.device, workers=machine.workers)
    check_collection(out / STORE, model.model_hash)
    data = None if result is None and gallery is None else open_gallery(source, gallery, machine)
    thumbnails = fill_gallery(model, data, source)
    if model.chosen is None:
        choose_on(model, unseen_classes(model, result, keep_trained), keep_trained=keep_trained)
    file, difference = export_onnx(model.embedder, example_images(model, data, machine)) if onnx else (None, None)
    record = run_record(result) if result is not None else kept_record(source / CARD)
    model.name = model.name if result is None else result.folder.resolve().name
    card = model_card(model, record=record, licence=licence)
    model.save(out, thumbnails=thumbnails, card=card, onnx=file)
    size = sum(file.stat().st_size for file in out.iterdir())
    threshold = None if model.chosen is None else model.chosen.value
    return Exported(out, len(model.gallery), size, model.model_hash, threshold, difference)


def open_gallery(source: Path, gallery: str | None, machine: Machine) -> Manifest:
    """The data to search in: those named, or the images of the run in this folder."""
    if gallery is not None:
        return open_data(gallery, root=machine.data_root, allow_counts=True)
    spec = finished(source).spec.data
    try:
        return open_data(spec.source, root=machine.data_root, allow_counts=spec.allow_counts)
    except DataError as error:
        raise DataError(f"{error} (the images of the run; if they were moved, say where with --gallery)") from error


def fill_gallery(model: Model, data: Manifest | None, source: Path) -> dict[str, bytes]:
    """Put the data into the gallery, in place of what was there; returns small pictures by id."""
    ids = [entry.id for entry in model.gallery.contents().entries]
    if data is None:
        return dict(zip(ids, read_thumbnails(source), strict=False))
    model.remove(ids)
    model.add(data)
    if model.preprocessing is None:
        return {}  # ready vectors
    return {entry.id: make_thumbnail(data.read_bytes(row)) for row, entry in enumerate(entries_of(data))}


def unseen_classes(model: Model, result: RunResult | None, keep_trained: bool) -> tuple[str, ...]:
    """Names of the gallery's classes that did not train the model, or of all; of an older run, those it tested on."""
    held = model.gallery.contents()
    if keep_trained:
        return tuple(held.numbered.names)
    if model.trained_on is not None:
        seen = model.trained_on.seen(held.entries).classes
        return tuple(name for name in held.numbered.names if name not in seen)
    if result is None or not result.test:
        return ()
    with (result.folder / "embeddings.csv").open(newline="", encoding="utf-8") as file:
        return tuple(dict.fromkeys(row["class_name"] for row in csv.DictReader(file)))


def choose_threshold(model: Model) -> None:
    """Choose the threshold of a model on the classes of its gallery that did not train it, if they are enough."""
    choose_on(model, unseen_classes(model, None, False), keep_trained=False)


def choose_on(model: Model, classes: tuple[str, ...], *, keep_trained: bool) -> None:
    """Choose the threshold of "same or different" on these classes of the gallery, if they have pairs enough."""
    held = model.gallery.contents()
    found, trained = labelled_sample(held, classes), model.trained_on
    number = 0 if trained is None else len(trained.seen(held.entries).classes)
    data = f"gallery{say_seen(number, keep_trained)}"
    if found is None or not set(found.names) <= set(classes):
        return
    for rate in (FAR, *LARGER_FARS):
        with suppress(UserError):  # too few pairs for this rate
            model.chosen = threshold_of(verify(found.embedded, far=rate), found.names, data)
            return


def example_images(model: Model, data: Manifest | None, machine: Machine) -> Tensor:
    """Some inputs of the network: images spread over the data, or noise where there are none."""
    look, generator = model.preprocessing, torch.Generator().manual_seed(0)
    if look is None:
        return torch.randn(PROVED, model.embedder.backbone.features, generator=generator)
    if data is None:
        return torch.randn(PROVED, 3, look.size, look.size, generator=generator)
    rows = torch.linspace(0, len(data) - 1, PROVED).long().tolist()
    return Encoder(model.embedder, machine).prepare([data.read_bytes(row) for row in rows])[1]
