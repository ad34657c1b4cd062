"""A saved model: weights, how the network is built, and its gallery, in a folder of four files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from similis.model.embedder import Embedder
from similis.retrieval.gallery import Contents, Entry
from similis.run.finished import read_network
from similis.run.machine import Machine
from similis.run.spec import ModelSpec
from similis.training.files import damage_error
from similis.training.folder import RunFolder
from similis.training.tensors import read_tensors, save_model, save_tensors

FORMAT = "similis-model-1"
ABOUT, WEIGHTS, GALLERY, ENTRIES = "model.json", "model.safetensors", "gallery.safetensors", "gallery.json"


def save_model_folder(path: Path, embedder: Embedder, spec: ModelSpec, name: str, held: Contents) -> Path:
    """Write a model; ``model.json`` comes last, so that a folder with one is whole.

    Args:
        path: of the folder, made if it is not there.
        embedder: the network.
        spec: how it is built.
        name: of the model.
        held: its gallery.
    """
    path.mkdir(parents=True, exist_ok=True)
    folder = RunFolder(path)
    save_model(path / WEIGHTS, embedder, {"contents": f"{FORMAT}/{name}"})
    entries = [list(entry) for entry in held.entries]
    save_tensors(path / GALLERY, {"vectors": held.vectors}, {"contents": entries_hash(entries)})
    folder.write(ENTRIES, {"entries": entries})
    look = embedder.preprocessing
    about = {"format": FORMAT, "name": name, "network": spec.model_dump(mode="json"), "normalise": embedder.normalise,
             "preprocessing": None if look is None else asdict(look)}  # fmt: skip
    folder.write(ABOUT, about)
    return path


def entries_hash(entries: list[list[Any]]) -> str:
    """What the vectors of a gallery say they belong to: ids, labels and hashes in their order."""
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()


def read_model_folder(path: Path, machine: Machine) -> tuple[Embedder, ModelSpec, str, Contents]:
    """Network, how it is built, name and gallery of a folder that :func:`save_model_folder` wrote."""
    folder = RunFolder(path)
    about, held = folder.read(ABOUT) or {}, folder.read(ENTRIES) or {}
    if about.get("format") != FORMAT or "entries" not in held:
        raise damage_error(path / ABOUT, f"not a model of the format {FORMAT}")
    spec, name = ModelSpec.model_validate(about["network"]), str(about["name"])
    embedder = read_network(
        path / WEIGHTS,
        f"{FORMAT}/{name}",
        spec,
        machine,
        normalise=about["normalise"],
        look=about["preprocessing"],
    )
    vectors = read_tensors(path / GALLERY, entries_hash(held["entries"]))[0]["vectors"]
    return embedder, spec, name, Contents(vectors, [Entry(*entry) for entry in held["entries"]], 0)
