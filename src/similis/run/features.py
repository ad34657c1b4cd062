"""Features of a frozen backbone, computed once and kept under the hash of what they depend on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

import torch
from torch import Tensor

from similis.data.loader import Loader
from similis.networks.embedder import Embedder
from similis.retrieval.embed import embed
from similis.run.address import NUMERICS, source_of_backbone
from similis.run.parts import Source
from similis.run.prepared import Prepared
from similis.run.spec import RunSpec
from similis.training.rank_zero import is_first, wait_for_all
from similis.training.tensors import cached_tensors


def frozen_features(model: Embedder, loader: Loader, run: Prepared) -> Tensor:
    """What the backbone makes of every image (N, F), read from the cache if it is there."""
    spec, source, machine = run.spec, run.source, run.machine
    key = feature_key(model, source, spec, pooling=spec.model.pooled_by)

    def compute() -> dict[str, Tensor]:
        rows = torch.arange(len(source.manifest))
        batches = loader.ordered(rows, batch_size=spec.evaluation.batch_size)
        return {"features": embed(model.eval().cacheable_features, batches, count=len(rows)).vectors}

    if not is_first(machine.communicator):
        wait_for_all(machine.communicator)
    path = machine.root / "features" / f"{key}.safetensors"
    found = cached_tensors(path, compute, {"format": "similis-features-1", "contents": key})
    if is_first(machine.communicator):
        wait_for_all(machine.communicator)
    return found["features"]


def feature_key(model: Embedder, source: Source, spec: RunSpec, *, pooling: str, rows: Tensor | None = None) -> str:
    """Hash of data (all, or these rows), network with its source, weights, pooling, preprocessing and numerics."""
    parts = {
        "data": source.manifest.fingerprint(),
        "backbone": spec.model.backbone,
        "options": spec.model.options,
        "weights": model.weights_hash or f"seed {spec.seed}",
        "pooling": pooling,
        "preprocessing": None if model.preprocessing is None else asdict(model.preprocessing),
        "source": source_of_backbone(spec.model.backbone),
        "numerics": NUMERICS,
        "rows": None if rows is None else rows.tolist(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]
