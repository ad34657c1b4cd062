"""The address of a run: what decides its numbers, hashed."""

from __future__ import annotations

import hashlib
import json
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import similis
from similis.run.spec import RunSpec
from similis.values import UserError

# Rooms whose code decides numbers; the command line and the pictures do not.
ROOMS = ("values.py", "registry.py", "data", "model", "objective", "engine", "training", "retrieval", "run")


@cache
def code_version() -> str:
    """A hash over the source files that compute a run."""
    root = Path(similis.__file__).parent
    digest = hashlib.sha256()
    for room in ROOMS:
        place = root / room
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            if file.exists():
                digest.update(f"{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def address(spec: RunSpec, data_fingerprint: str, files_fingerprint: str) -> str:
    """Where the result of a specification lives: the same inputs, the same place."""
    parts = {
        "spec": json.loads(spec.model_dump_json()),
        "data": data_fingerprint,
        "files": files_fingerprint,
        "code": code_version(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def files_fingerprint(spec: RunSpec) -> str:
    """Hashes of the files that a specification names, weights and class similarities; cheap, for the address."""
    weights = spec.model.weights
    known = (
        str(weights) if weights in (None, "pretrained") else file_hash(str(weights), "weights", "pretrained, or null")
    )
    language = spec.objective.language
    return known if language is None else f"{known} {file_hash(language, 'language', 'or null')}"


def file_hash(name: str, what: str, otherwise: str) -> str:
    """The sha256 of a file that the specification names."""
    path = Path(name)
    if not path.exists():
        raise UserError(f"there is no {what} file {path}; pass a file, {otherwise}")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def environment() -> dict[str, Any]:
    """Versions and machine, for the record; nothing of it enters the address but the code's version."""
    return {
        "similis": similis.__version__,
        "code": code_version(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "packages": {name: installed(name) for name in ("torch", "numpy", "timm", "torchvision", "pillow", "pyarrow")},
    }


def installed(name: str) -> str | None:
    """The version of a package, None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
