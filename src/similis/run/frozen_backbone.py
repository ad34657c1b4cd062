"""What a frozen backbone gives: features that are computed once, and heads in closed form on them.

Features are kept under the hash of what they depend on. A closed form is fitted on the training classes, its shrinkage
chosen on the validation classes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import NamedTuple

import torch
from torch import Tensor

from similis.data.examples import FeatureData
from similis.data.loader import Loader
from similis.data.splits import Split
from similis.networks.embedder import Embedder
from similis.retrieval.embed import embed
from similis.retrieval.evaluate import evaluate
from similis.run.address import NUMERICS, source_of_backbone
from similis.run.machine import Watch
from similis.run.parts import Parts, Source
from similis.run.prepared import Prepared
from similis.run.spec import RunSpec
from similis.run.stage import Selection
from similis.sphere import unit
from similis.training.closed_form import LinearMap, can_fit, choose_shrinkage, get_fit, ledoit_wolf
from similis.training.folder import RunFolder
from similis.training.rank_zero import is_first, wait_for_all
from similis.training.tensors import cached_tensors
from similis.values import Embedded, UserError

MOST_DIM = 512  # of a closed form whose size nobody asked for


def frozen_features(model: Embedder, loader: Loader, run: Prepared, watch: Watch) -> Tensor:
    """What the backbone makes of every image (N, F), read from the cache if it is there."""
    spec, source, machine = run.spec, run.source, run.machine
    key = feature_key(model, source, spec, pooling=spec.model.pooled_by)

    def compute() -> dict[str, Tensor]:
        rows = torch.arange(len(source.manifest))
        watch.on_phase("embedding, once", len(rows))
        batches = watch.follow(loader.ordered(rows, batch_size=spec.evaluation.batch_size))
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


class Fitted(NamedTuple):
    """A linear map, its shrinkage, and the validation R@1 that chose it; None where no class validates."""

    map: LinearMap
    shrinkage: float
    value: float | None


def fit_head(run: Prepared, parts: Parts, folder: RunFolder) -> tuple[Parts, Selection]:
    """Fit the head of a run to the features of its backbone."""
    data, dim = parts.loader.data, parts.model.dim
    assert isinstance(data, FeatureData)
    spec, labels = run.spec, run.source.manifest.labels
    found = fit_split(spec.model.head, data.vectors, labels, run.source.split, dim, rows=run.steps[-1].rows)
    set_head(parts, found.map)
    chosen = Selection(0, found.value, (), shrinkage=found.shrinkage)
    folder.write("selection.json", asdict(chosen))
    return parts, chosen


def begin_with_whitening(parts: Parts, labels: Tensor, rows: Tensor) -> None:
    """Start a head that is trained at the whitening of its training rows, shrunk as Ledoit and Wolf would."""
    data = parts.loader.data
    if not isinstance(data, FeatureData):
        raise UserError("model.head is whitening+trained, which needs cached features; set model.trains=head")
    known = data.vectors[rows], labels[rows]
    set_head(parts, get_fit("whitening")(*known).map(parts.model.dim, ledoit_wolf(*known)))


def set_head(parts: Parts, found: LinearMap) -> None:
    """Put a map into the head; directions that the map does not have stay zero, which changes no cosine."""
    head, size = parts.model.head, len(found.bias)
    assert isinstance(head, torch.nn.Linear)
    with torch.no_grad():
        head.weight.zero_()[:size] = found.weight
        head.bias.zero_()[:size] = found.bias


def fit_split(
    name: str, features: Tensor, labels: Tensor, split: Split, dim: int, *, rows: Tensor | None = None
) -> Fitted:
    """Choose the shrinkage on the validation classes, then fit on all training classes.

    Args:
        name: of the closed form.
        features: (N, F) of all rows of the data.
        labels: (N,) of all rows.
        split: whose test rows are not looked at.
        dim: size of the map, at most F.
        rows: to fit on in the end; None for those of training and validation classes.
    """
    every = torch.cat([split.train, split.validation]).sort().values if rows is None else rows
    train, validation, both = ((features[part], labels[part]) for part in (split.train, split.validation, every))
    if len(split.validation) and can_fit(train[1]):
        shrinkage, values = choose_shrinkage(name, train, validation, dim, judge=judge_recall)
    else:
        shrinkage, values = ledoit_wolf(*both), {}
    return Fitted(get_fit(name)(*both).map(dim, shrinkage), shrinkage, values.get(shrinkage))


def judge_recall(vectors: Tensor, labels: Tensor) -> float:
    """R@1 of vectors on the unit sphere, every row a query."""
    found = Embedded(unit(vectors), labels, torch.arange(len(labels)))
    return evaluate(found, ks=(1,)).means["recall@1"]
