"""The parts of a run, built from its specification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from similis.data.examples import FeatureData, image_data
from similis.data.exclusion import leave_out, read_exclusions
from similis.data.loader import Loader
from similis.data.manifest import Manifest
from similis.data.noise import with_wrong_labels
from similis.data.open_data import explain_read_errors, list_data
from similis.data.own_data import find_transform
from similis.data.sampling import samplers
from similis.data.splits import Split, split_data
from similis.networks.embedder import Embedder
from similis.networks.text import load_similarity
from similis.objective.loss import Loss, loss
from similis.objective.wrappers.guided import Guided, Objective
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.objective.wrappers.nested import Nested
from similis.retrieval.offline_mining import Mined
from similis.run.machine import Machine
from similis.run.spec import RunSpec
from similis.run.trained_on import read_trained_on
from similis.run.warm_start import keep_training, start_folder
from similis.values import UserError


@dataclass(frozen=True)
class Source:
    """The images of a run and how their classes are divided."""

    manifest: Manifest
    split: Split


class HeadOnly(nn.Module):
    """What is trained when the backbone is not: everything behind its features."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__()
        self.embedder = embedder

    def forward(self, features: Tensor) -> Tensor:
        """Features (B, F) -> embeddings (B, D)."""
        return self.embedder.embed_features(features)


@dataclass(frozen=True)
class Parts:
    """The model, what of it is trained and evaluated, and the loader of what that takes."""

    model: Embedder
    trained: nn.Module
    loader: Loader


def open_source(spec: RunSpec, machine: Machine) -> Source:
    """Open the data and divide its classes."""
    return divide_data(open_manifest(spec, machine), spec)


def open_manifest(spec: RunSpec, machine: Machine, check: Callable[[], None] | None = None) -> Manifest:
    """Open the data of a run; a check comes after the images are listed and before they are read."""
    data = spec.data
    listed = list_data(data.source, root=machine.data_root, allow_counts=data.allow_counts)
    if check is not None:
        check()
    with explain_read_errors(data.source):
        return listed.with_content(verify=machine.verify)


def divide_data(manifest: Manifest, spec: RunSpec) -> Source:
    """Divide the classes of opened data as a run does."""
    data = spec.data
    split = split_data(
        manifest,
        protocol=data.protocol,
        seed=data.split_seed,
        validation_seed=data.validation_seed,
        validation_share=data.validation_share,
        folds=data.folds,
        fold=data.fold,
        test_share=data.test_share,
    )
    start = start_folder(spec.model.weights)
    if start is not None and len(split.test):
        split = keep_training(manifest, split, read_trained_on(start))
    if data.exclude is not None:
        split = leave_out(manifest, split, read_exclusions(data.exclude))
    if data.wrong_labels:
        manifest = with_wrong_labels(manifest, split.train, data.wrong_labels, seed=data.split_seed)
    return Source(manifest, split)


def build_loader(model: Embedder, source: Source, spec: RunSpec, machine: Machine) -> Loader:
    """Batches of the run's images as the model wants them."""
    policies = ("eval",) if spec.model.keeps_backbone else (spec.training.policy, "eval")
    transform = find_transform(spec.training.transform)
    return images_for(model, source.manifest, machine, policies=policies, transform=transform)


def images_for(
    model: Embedder,
    manifest: Manifest,
    machine: Machine,
    *,
    policies: tuple[str, ...],
    transform: Callable[[Any], Any] | None = None,
) -> Loader:
    """Batches of a manifest's images, prepared as the model wants them."""
    preprocessing = model.preprocessing
    if (preprocessing is None) != manifest.has("vector"):
        raise UserError(
            "the backbone identity takes a data set of ready vectors (a Parquet file with a column 'vector'), "
            "every other backbone one of images; choose the backbone that fits the data"
        )
    if preprocessing is None:
        return Loader(FeatureData(manifest.vectors, manifest.labels), device=machine.chosen)
    data = image_data(
        manifest,
        preprocessing,
        cache_bytes=machine.cache_bytes,
        policies=policies,
        workers=machine.workers,
        transform=transform,
    )
    return Loader(data, workers=machine.workers, channels_last=True, device=machine.chosen)


def build_objective(spec: RunSpec, classes: Mapping[int, str], dim: int) -> Objective | Guided:
    """The loss with its memory, nested sizes and language guidance.

    Args:
        spec: of the run.
        classes: label -> name of the training classes; language guidance finds its similarities by the names.
        dim: of the embeddings.
    """
    o, class_ids = spec.objective, list(classes)
    options: dict[str, Any] = dict(o.options)
    base = loss(o.loss, class_ids=class_ids, dim=dim, preset=o.preset, miner=o.miner, seed=spec.seed, **options)
    sized: Loss | Nested = Nested(base, o.nested_sizes) if o.nested_sizes else base
    made: Objective = sized
    if o.memory:
        made = CrossBatchMemory(sized, size=o.memory, dim=dim, start=o.memory_start)
    if o.language is None:
        return made
    matrix = load_similarity(o.language).select(list(classes.values()))
    return Guided(made, matrix, class_ids=class_ids, weight=o.language_weight)


def base_loss(objective: nn.Module) -> Loss:
    """The loss inside its wrappers."""
    inner = objective
    while not isinstance(inner, Loss):
        inner = inner.loss  # type: ignore[assignment]
    return inner


def epoch_batches(spec: RunSpec, source: Source, rows: Tensor, epoch: int, table: Mined | None = None) -> Tensor:
    """Row numbers of the manifest, (batches, B), for one epoch over these rows.

    Args:
        spec: which sampler, with which settings.
        source: labels.
        rows: the training rows.
        epoch: number of the epoch.
        table: what was mined over these rows, for the sampler ``mined``; where nothing was found (a model that
            has collapsed), the epoch has random batches.
    """
    t, name, labels = spec.training, spec.sampler, source.manifest.labels[rows]
    if name == "mined" and table is None:
        raise UserError("the sampler mined makes its batches from a mined table; mine the rows first")
    own: dict[str, Any] = {"per_class": t.per_class, "batch_size": t.batch_size}
    if name == "random" or (table is not None and not bool(table.useful().any())):
        name, own = "random", {"batch_size": t.images_drawn}
    elif name == "mined" and table is not None:
        ends = None if t.mining.kind == "neighbours" else table.positives
        own = {"positives": ends, "negatives": table.negatives, "batch_size": t.batch_size}
    chosen: Tensor = samplers.get(name).function(labels, seed=spec.seed, epoch=epoch, **own)
    return rows[chosen]
