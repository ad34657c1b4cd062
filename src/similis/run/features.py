"""Features of a frozen backbone, computed once and kept under the hash of what they depend on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

import torch
from torch import Tensor

from similis.data.loader import Loader
from similis.model.embedder import Embedder
from similis.retrieval.embed import embed
from similis.run.address import code_version
from similis.run.machine import Machine
from similis.run.parts import Source
from similis.run.sharing import is_first, settle
from similis.run.spec import RunSpec
from similis.training.checkpoint import read_tensors, save_tensors


def frozen_features(model: Embedder, loader: Loader, source: Source, spec: RunSpec, machine: Machine) -> Tensor:
    """What the backbone makes of every image (N, F), read from the cache if it is there."""
    path = machine.root / "features" / f"{feature_key(model, source, spec)}.safetensors"
    if not is_first(machine.communicator):
        settle(machine.communicator)
    if path.exists():
        if is_first(machine.communicator):
            settle(machine.communicator)
        return read_tensors(path)[0]["features"]
    rows = torch.arange(len(source.manifest))
    found = embed(
        model.eval().cacheable_features, loader.ordered(rows, batch_size=spec.evaluation.batch_size), count=len(rows)
    )
    save_tensors(path, {"features": found.vectors}, {"format": "similis-features-1"})
    settle(machine.communicator)
    return found.vectors


def feature_key(model: Embedder, source: Source, spec: RunSpec) -> str:
    """Hash of data, network, weights, pooling, preprocessing and code."""
    parts = {
        "data": source.manifest.fingerprint(),
        "backbone": spec.model.backbone,
        "options": spec.model.options,
        "weights": model.weights_hash or f"seed {spec.seed}",
        "pooling": spec.model.pooling,
        "preprocessing": None if model.preprocessing is None else asdict(model.preprocessing),
        "code": code_version(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]
