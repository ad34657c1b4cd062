"""A run that goes on from another model: its weights, the proxies of classes that stay, and what it has seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from similis.data.manifest import Manifest
from similis.data.splits import Split, split_fingerprint
from similis.networks.embedder import Embedder
from similis.networks.weights import Loaded, weights_hash
from similis.objective.loss import Loss
from similis.run.trained_on import TRAINED, TrainedOn
from similis.training.tensors import load_model, read_tensors, save_tensors
from similis.values import UserError

WEIGHTS, PROXIES = "model.safetensors", "proxies.safetensors"


def start_folder(weights: str | None) -> Path | None:
    """The folder of the model that a run goes on from; None if it begins elsewhere."""
    place = None if weights is None else Path(weights)
    return place if place is not None and place.is_dir() else None


def start_files(folder: Path) -> list[Path]:
    """The files of a model that decide the numbers of a run that goes on from it."""
    if not (folder / WEIGHTS).exists():
        raise UserError(f"{folder} holds no {WEIGHTS}; give the folder of a finished run or of a saved model")
    return [file for name in (WEIGHTS, PROXIES, TRAINED) if (file := folder / name).exists()]


def load_start(model: Embedder, folder: Path) -> None:
    """Put the weights of a finished run or of a saved model into a network of the same form."""
    _, described = read_tensors(folder / WEIGHTS)
    load_model(model, folder / WEIGHTS, described["contents"])
    model.backbone.loaded = Loaded(str(folder), weights_hash(model), ())


def write_proxies(file: Path, loss: Loss, classes: Mapping[int, str]) -> None:
    """Keep what a loss has learned for each class, for a run that goes on; nothing where proxies are sharded."""
    learned = {name: value for name, value in loss.learned.items() if value.ndim > 1 and value.shape[0] == len(classes)}
    if learned and loss.classes is None:
        save_tensors(file, learned, {"contents": loss.entry.name, "classes": json.dumps(list(classes.values()))})


def start_proxies(loss: Loss, classes: Mapping[int, str], folder: Path) -> int:
    """Give the proxies of classes that stay the values that the same loss has learned; how many classes stay."""
    if not (folder / PROXIES).exists():
        return 0
    kept, described = read_tensors(folder / PROXIES)
    if described["contents"] != loss.entry.name:
        return 0
    known = {name: row for row, name in enumerate(json.loads(described["classes"]))}
    rows = [(row, known[name]) for row, name in enumerate(classes.values()) if name in known]
    here, there = (torch.tensor(side, dtype=torch.long) for side in zip(*rows, strict=True)) if rows else ((), ())
    for name, value in loss.learned.items():
        if rows and name in kept and kept[name].shape[1:] == value.shape[1:]:
            value.data[here] = kept[name][there].to(value)
    return len(rows)


def keep_training(manifest: Manifest, split: Split, seen: TrainedOn | None) -> Split:
    """The split without test classes that the model has seen: these train, or its test would flatter."""
    if seen is None:
        raise UserError("what trained the model is not known, so no test would be honest; train it with this version")
    contents = manifest.values("content") if manifest.has("content") else [""] * len(manifest)
    names = manifest.values("class_name")
    classes = seen.classes | {names[row] for row in split.test.tolist() if contents[row] in seen.contents}
    known = torch.tensor([names[row] in classes for row in split.test.tolist()], dtype=torch.bool)
    if not known.any():
        return split
    train, test = torch.cat([split.train, split.test[known]]).sort().values, split.test[~known]
    changed = split_fingerprint(manifest, [train, split.validation, test])
    return replace(split, train=train, test=test, fingerprint=changed)
