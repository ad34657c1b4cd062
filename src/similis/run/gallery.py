"""The gallery of a finished run: its images embedded once, kept in the run folder, searched by any picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from similis.data.content import digest_of
from similis.data.loader import Loader
from similis.data.manifest import Manifest, from_columns
from similis.data.open_data import open_data
from similis.model.embedder import Embedder
from similis.retrieval.embed import embed
from similis.retrieval.search import search
from similis.run.finished import trained_model
from similis.run.machine import Machine
from similis.run.parts import images_for
from similis.run.result import RunResult
from similis.training.tensors import cached_tensors
from similis.values import Neighbors, UserError


@dataclass(frozen=True)
class Gallery:
    """Images that answer, with their embeddings (N, D), and the model that made them."""

    manifest: Manifest
    vectors: Tensor
    model: Embedder


def open_gallery(result: RunResult, machine: Machine, source: str | None = None) -> Gallery:
    """All images of a run's data (or of another folder), embedded by its model once and then read from its folder.

    Args:
        result: a finished run.
        machine: workers, and where the known data sets are.
        source: another folder, archive or table; None for the data of the run.
    """
    data = result.spec.data
    manifest = open_data(
        source or data.source, root=machine.data_root, allow_counts=source is not None or data.allow_counts
    )
    model = trained_model(result, machine)
    path = result.folder / "galleries" / f"{manifest.fingerprint()[:24]}.safetensors"
    metadata = {"format": "similis-gallery-1", "contents": f"{result.address}/{manifest.fingerprint()}"}
    kept = cached_tensors(
        path, lambda: {"vectors": embed_gallery(model, manifest, machine, result.spec.evaluation.batch_size)}, metadata
    )
    return Gallery(manifest, kept["vectors"], model)


def embed_gallery(model: Embedder, manifest: Manifest, machine: Machine, batch_size: int) -> Tensor:
    """Embeddings (N, D) of all images of a manifest, in its order."""
    loader: Loader = images_for(model, manifest, machine, policies=("eval",))
    rows = torch.arange(len(manifest))
    return embed(model, loader.ordered(rows, batch_size=batch_size), count=len(rows)).vectors


def find(gallery: Gallery, picture: Path, k: int) -> Neighbors:
    """The k images of a gallery most like a picture; a copy of the picture itself is left out by its bytes' hash.

    Args:
        gallery: see :func:`open_gallery`.
        picture: an image file.
        k: how many.

    Shapes: index (1, k), similarity (1, k).
    """
    if not picture.is_file():
        raise UserError(f"there is no picture {picture}; give an image file")
    data = picture.read_bytes()
    alone = from_columns(picture.name, {"path": [picture.name], "label": [0], "class_name": ["query"], "bytes": [data]})
    query = embed_gallery(gallery.model, alone, Machine(cache_bytes=0), 1)
    same = torch.tensor([0 if copied else -1 for copied in copies(gallery.manifest, data)])
    return search(query, gallery.vectors, k, groups=(torch.zeros(1, dtype=torch.int64), same))


def copies(manifest: Manifest, data: bytes) -> list[bool]:
    """Which images of a manifest are this very file."""
    own = digest_of(data)
    return [held == own for held in manifest.values("content")]
