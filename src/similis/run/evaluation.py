"""What a run measures: recall of the classes that choose, and everything of the classes that test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from similis.data.loader import Loader
from similis.data.manifest import Manifest
from similis.retrieval.embed import embed
from similis.retrieval.evaluate import Evaluation, evaluate
from similis.retrieval.gallery import entries_of
from similis.run.machine import Watch
from similis.run.parts import Parts, Source
from similis.run.spec import RunSpec
from similis.training.files import write_table
from similis.training.folder import RunFolder
from similis.training.tensors import save_tensors
from similis.values import Embedded


def validation_recall(module: nn.Module, *, rows: Tensor, spec: RunSpec, loader: Loader) -> float:
    """R@1 on the classes that choose."""
    found = on_device(evaluate_rows(module, loader, rows, spec), loader)
    return evaluate(found, ks=(1,)).means["recall@1"]


def evaluate_rows(
    module: nn.Module, loader: Loader, rows: Tensor, spec: RunSpec, watch: Watch | None = None
) -> Embedded:
    """Embeddings of these rows, with row numbers of the manifest as ids."""
    batches = loader.ordered(rows, batch_size=spec.evaluation.batch_size)
    return embed(module, (watch or Watch()).follow(batches), count=len(rows))


def on_device(found: Embedded, loader: Loader) -> Embedded:
    """Embeddings where the model computes: neighbours are searched there."""
    return found._replace(vectors=found.vectors.to(loader.device))


def judge_of(found: Embedded, manifest: Manifest) -> Callable[..., Evaluation]:
    """How embeddings of these rows are evaluated: with the roles and groups that the data set states."""
    roles = {role: torch.isin(found.ids, manifest.rows_of(role, found.ids)) for role in ("query", "gallery")}
    groups = manifest.numbers("group")[found.ids] if manifest.has("group") else None
    return partial(evaluate, queries=roles["query"], gallery=roles["gallery"], groups=groups)


def evaluate_test_split(parts: Parts, source: Source, spec: RunSpec, folder: RunFolder, watch: Watch) -> Evaluation:
    """Open the test split for the finished model, note the opening, keep every query's score."""
    rows = source.split.test
    folder.log({"stage": "test", "step": 0, "opened": "test split", "images": len(rows)})
    watch.on_phase("evaluating on unseen classes", len(rows))
    found = evaluate_rows(parts.trained, parts.loader, rows, spec, watch)
    judge = judge_of(found, source.manifest)
    there = on_device(found, parts.loader)
    result = judge(there, ks=spec.evaluation.ks, clustering=spec.evaluation.clustering)
    leading = {size: there._replace(vectors=there.vectors[:, :size]) for size in spec.evaluation.sizes}
    cuts = {size: judge(part, ks=(1,)) for size, part in leading.items()}
    more = {f"recall@1 of {size}": cut.means["recall@1"] for size, cut in cuts.items()}
    result = replace(result, means={**result.means, **more})
    keep = dict(result.per_query) | answers_of(result, found)
    keep |= {"labels": found.labels[result.queries], "ids": found.ids[result.queries]}
    for name, tensors in {"scores": keep, "embeddings": found._asdict()}.items():
        metadata = {"format": f"similis-{name}-1", "contents": f"{folder.address}/{name}"}
        save_tensors(folder.path / f"{name}.safetensors", tensors, metadata)
    write_names(folder.path / "embeddings.csv", source.manifest, found.ids)
    return result


def answers_of(result: Evaluation, found: Embedded) -> dict[str, Tensor]:
    """The neighbours of each query (Q, K), as rows of the data, with their similarities."""
    index, similarity = result.neighbors
    return {"neighbors": found.ids[index.clamp(min=0)], "similarity": similarity}


def write_names(path: Path, manifest: Manifest, rows: Tensor) -> None:
    """A table of images in the order of their vectors: row number of the data set, path, class name."""
    named = entries_of(manifest.select(rows))
    table = [(row, entry.id, entry.label) for row, entry in zip(rows.tolist(), named, strict=True)]
    write_table(path, [("row", "path", "class_name"), *table])
