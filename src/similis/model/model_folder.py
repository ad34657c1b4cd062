"""A saved model: weights, how the network is built, its gallery and what a server shows of it, in one folder."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import get_ident
from typing import Any

from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from similis.model.bundle import Rate, error_rates, write_rates, write_thumbnails
from similis.model.bundle_files import (
    ABOUT,
    CARD,
    ENTRIES,
    FORMAT,
    GALLERY,
    ONNX,
    WEIGHTS,
    check_files,
    check_gallery,
    check_target,
    parse_entries,
    read_json,
    read_shapes,
    stage_files,
    write_checksums,
)
from similis.model.finished import LOOK, read_network
from similis.model.verification import Threshold, write_threshold
from similis.networks.embedder import Embedder
from similis.retrieval.gallery import Contents, Entry
from similis.run.machine import Machine
from similis.run.spec import ModelSpec
from similis.run.trained_on import TrainedOn, write_trained_on
from similis.training.files import damage_error, replace_file
from similis.training.folder import RunFolder
from similis.training.tensors import read_tensors, save_model, save_tensors
from similis.values import DataError, Preprocessing, UserError

MOST_PIXELS = 4096  # of a side of what a network sees
SPARE = 2**23  # numbers that a network may have beyond twice those of its file: parts that it drops again
ARCHITECTURE = ("backbone", "pooling", "dim", "layer_norm", "options")  # what else decides an embedding of a network


def save_model_folder(
    path: Path,
    embedder: Embedder,
    spec: ModelSpec,
    name: str,
    held: Contents,
    *,
    threshold: Threshold | None = None,
    trained_on: TrainedOn | None = None,
    thumbnails: Mapping[str, bytes] | None = None,
    card: str = "",
    onnx: bytes | None = None,
) -> Path:
    """Write a model; whatever happens meanwhile, the folder holds the old model or the new one.

    All files are written and checked in a hidden folder inside, which one rename then declares whole (see
    :func:`similis.model.bundle_files.adopt_staged`).

    Args:
        path: of the folder, made if it is not there.
        embedder: the network.
        spec: how it is built.
        name: of the model.
        held: its gallery.
        threshold: of "same or different".
        trained_on: images and classes that trained it, on which no error rates are counted.
        thumbnails: small encoded images by id.
        card: the text of ``README.md``.
        onnx: the network as an ONNX file.
    """
    check_target(path)
    with stage_files(path) as staged:
        write_network(staged, embedder, spec, name)
        write_gallery(staged, held)
        if threshold is not None:
            write_threshold(staged, threshold)
        if trained_on is not None:
            write_trained_on(staged, trained_on)
        write_rates(staged, count_rates(held, threshold, trained_on))
        if thumbnails:
            write_thumbnails(staged, [thumbnails.get(entry.id, b"") for entry in held.entries])
        replace_file(staged / CARD, lambda beside: beside.write_text(card, encoding="utf-8"))
        if onnx is not None:
            replace_file(staged / ONNX, lambda beside: beside.write_bytes(onnx))
        write_checksums(staged)
        check_files(staged)
        check_gallery(staged, embedder.dim)
        read_vectors(staged, held.entries)
    return path


def write_network(path: Path, embedder: Embedder, spec: ModelSpec, name: str) -> None:
    """Write the weights, and how the network is built."""
    look = embedder.preprocessing
    save_model(path / WEIGHTS, embedder, {"contents": f"{FORMAT}/{name}"})
    began = None if spec.weights is None else Path(spec.weights).name  # the folders of this machine are private
    network = spec.model_copy(update={"weights": began}).model_dump(mode="json")
    about = {"format": FORMAT, "name": name, "network": network, "normalise": embedder.normalise,
             "preprocessing": None if look is None else asdict(look)}  # fmt: skip
    RunFolder(path).write(ABOUT, about)


def count_rates(held: Contents, threshold: Threshold | None, trained_on: TrainedOn | None) -> list[Rate]:
    """Error rates on the gallery's classes of the threshold, or else on those that did not train the model."""
    names = set(held.numbered.names)
    chosen = names & set(() if threshold is None else threshold.classes)
    if not chosen and trained_on is not None:
        chosen = names - trained_on.seen(held.entries).classes
        return error_rates(held, sorted(chosen)) if chosen else []
    return error_rates(held, sorted(chosen))


def write_gallery(path: Path, held: Contents) -> None:
    """Write the vectors with their entries."""
    save_tensors(path / GALLERY, {"vectors": held.vectors}, {"contents": entries_hash(held.entries)})
    RunFolder(path).write(ENTRIES, {"entries": list(held.entries)})


def entries_hash(entries: Sequence[Entry]) -> str:
    """What the vectors of a gallery say they belong to: ids, labels and hashes in their order."""
    return hashlib.sha256(json.dumps(list(entries)).encode()).hexdigest()


def read_model_folder(path: Path, machine: Machine) -> tuple[Embedder, ModelSpec, str, Contents]:
    """Network, its specification, name and gallery of a folder of :func:`save_model_folder`, all checked first."""
    check_files(path)
    about = read_json(path / ABOUT)
    spec, look = check_network(path, about)
    contents, normalise = f"{FORMAT}/{about['name']}", about["normalise"]
    try:
        with limit_parameters(path / WEIGHTS):
            embedder = read_network(path / WEIGHTS, contents, spec, machine, normalise=normalise, look=look)
    except UserError as error:  # of an unknown network or option
        raise damage_error(path / ABOUT, error) from error
    count = check_gallery(path, embedder.dim)
    entries = parse_entries(path, read_json(path / ENTRIES).get("entries"), count)
    vectors = read_vectors(path, entries)
    return embedder, spec, about["name"], Contents(vectors, entries, 0)


@contextmanager
def limit_parameters(weights: Path) -> Iterator[None]:
    """Raise when a network that is built inside outgrows its file of weights, before memory is spent on it."""
    held = sum(math.prod(shape) for _, shape in read_shapes(weights).values())
    most, made, here = 2 * held + SPARE, [0], get_ident()

    def count(_module: nn.Module, _name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None and get_ident() == here:
            made[0] += parameter.numel()
            if made[0] > most:
                raise damage_error(weights, f"{ABOUT} describes a larger network than its {held:,} numbers fill")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def check_network(path: Path, about: Mapping[str, Any]) -> tuple[ModelSpec, Preprocessing | None]:
    """How a network is built and its preprocessing, after all that ``model.json`` states was seen to be usable."""
    try:
        spec = ModelSpec.model_validate(about["network"])
        look = LOOK.validate_python(about["preprocessing"])
    except (KeyError, ValidationError) as error:
        raise damage_error(path / ABOUT, error) from error
    kinds = {"name": str, "normalise": bool}
    wrong = [key for key, kind in kinds.items() if not isinstance(about.get(key), kind)]
    wrong += ["precision"] if about.get("precision", "float32") != "float32" else []  # of an earlier version
    wrong += ["image_size"] if (spec.image_size or 1) > MOST_PIXELS else []
    if look is not None and not (
        0 < look.size <= MOST_PIXELS
        and 0 < look.resize <= MOST_PIXELS
        and all(0 < value < math.inf for value in (*look.std, look.top))
        and all(map(math.isfinite, look.mean))
    ):
        wrong.append("preprocessing")
    if wrong:
        raise damage_error(path / ABOUT, f"its {wrong[0]} is of no use")
    shapes = read_shapes(path / WEIGHTS)
    if spec.dim is not None and shapes.get("model/head.weight", ("", (0,)))[1][:1] != (spec.dim,):
        raise damage_error(path / WEIGHTS, f"it has no head of {spec.dim} dimensions, which {ABOUT} states")
    return spec, look


def read_vectors(path: Path, entries: Sequence[Entry]) -> Tensor:
    """The vectors of a gallery with these entries, as float32."""
    try:
        vectors = read_tensors(path / GALLERY, entries_hash(entries))[0]["vectors"]
    except DataError as error:
        raise damage_error(path / GALLERY, error) from error
    if not vectors.isfinite().all():
        raise damage_error(path / GALLERY, "its vectors are not finite")
    return vectors


def embedding_hash(embedder: Embedder, spec: ModelSpec) -> str:
    """The sha256 of all that decides an embedding: weights, network, preprocessing; no gallery, no name."""
    look = embedder.preprocessing
    stated = [spec.model_dump(mode="json", include=set(ARCHITECTURE)), embedder.normalise, look and asdict(look)]
    digest = hashlib.sha256(json.dumps(stated, sort_keys=True).encode())
    for name, value in sorted(embedder.state_dict().items()):
        digest.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
