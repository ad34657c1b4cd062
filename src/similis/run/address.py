"""The address of a run: what decides its numbers, hashed."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from similis.data.sampling import samplers
from similis.networks.backbone import HANDED_OVER, ZOO, backbones
from similis.objective.loss_options import get_preset
from similis.registry import losses, miners
from similis.run.source import source_hash
from similis.run.spec import RunSpec
from similis.run.warm_start import start_files
from similis.values import UserError

# Raise it by hand in the change that changes a number of any run: every run then has a new address. The sources of
# losses, miners, samplers and backbones are in the address already; this stands for all that they are built on,
# language guidance and the clusters of an evaluation too.
NUMERICS = 4


def address(spec: RunSpec, data_fingerprint: str, files_fingerprint: str, device: str = "cpu") -> str:
    """Where the result of a specification lives: the same inputs, the same place.

    Args:
        spec: of the run.
        data_fingerprint: of the contents of its data and of their division.
        files_fingerprint: see :func:`files_fingerprint`.
        device: the kind of device, whose rounding may differ from that of others.
    """
    parts = {
        "spec": without_places(spec),
        "data": data_fingerprint,
        "files": files_fingerprint,
        "source": source_fingerprints(spec),
        "numerics": NUMERICS,
    } | ({} if device == "cpu" else {"device": device})
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def without_places(spec: RunSpec) -> dict[str, Any]:
    """The values of a specification without the places of its files, whose contents are hashed instead."""
    values: dict[str, Any] = json.loads(spec.model_dump_json())
    places = {("data", "source"): spec.data.source, ("model", "weights"): str(spec.model.weights),
              ("objective", "language"): str(spec.objective.language)}  # fmt: skip
    for (part, key), name in places.items():
        if Path(name).is_absolute():
            values[part][key] = ""
    values["model"]["pooling"] = spec.model.pooled_by
    if spec.model.head == "trained":
        del values["model"]["head"]  # as before there was a choice
    if spec.training.transform is None:
        del values["training"]["transform"]  # likewise
    values["objective"]["loss"] = losses.get(spec.objective.loss).name
    del values["data"]["exclude"]  # the division of the data says what is left out
    del values["evaluation"]["untouched"]  # another model is measured beside this one, whose numbers stay
    return values


def source_fingerprints(spec: RunSpec) -> dict[str, str]:
    """Part -> hash of the source of what a specification names, plug-ins included."""
    objective = spec.objective
    preset = get_preset(losses.get(objective.loss), objective.preset)
    miner = objective.miner or (preset.miner if preset else None)
    found = {
        "loss": source_hash(losses, objective.loss),
        "sampler": source_hash(samplers, spec.sampler),
        "backbone": source_of_backbone(spec.model.backbone),
    }
    if miner is not None:
        found["miner"] = source_hash(miners, miner)
    return found


def source_of_backbone(name: str) -> str:
    """Hash of the source of a network, or of the file that builds those of timm; one of the user's is in its name."""
    if name.startswith(HANDED_OVER):
        return name
    return source_hash(backbones, name if name in backbones else ZOO)


def files_fingerprint(spec: RunSpec) -> str:
    """Hashes of the files that a specification names, weights and class similarities; cheap, for the address."""
    weights = spec.model.weights
    known = (
        str(weights) if weights in (None, "pretrained") else file_hash(str(weights), "weights", "pretrained, or none")
    )
    language = spec.objective.language
    return known if language is None else f"{known} {file_hash(language, 'language', 'or none')}"


def file_hash(name: str, what: str, otherwise: str) -> str:
    """The sha256 of a file that the specification names, or of the model in a folder."""
    path = Path(name)
    if not path.exists():
        raise UserError(f"there is no {what} file {path}; pass a file, {otherwise}")
    digest = hashlib.sha256()
    for file in start_files(path) if path.is_dir() else [path]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def environment() -> dict[str, Any]:
    """Versions and machine, for the record; nothing of it enters the address but ``NUMERICS``."""
    return {
        "similis": installed_version("similis"),
        "numerics": NUMERICS,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "packages": {
            name: installed_version(name) for name in ("torch", "numpy", "timm", "torchvision", "pillow", "pyarrow")
        },
    }


def installed_version(name: str) -> str | None:
    """The version of a package, None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
