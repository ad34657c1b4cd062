"""Embed a whole data set into part files: restartable, every image once, by processes or on a Ray cluster.

A part is a run of rows of fixed length. It is embedded by one task, and its file appears under its name when it is
whole, so a part that is there is never computed again, and what was lost is computed by the next attempt.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from similis.data.manifest import Manifest
from similis.data.readers.part_files import read_stamp
from similis.data.sources import is_url
from similis.engine.executor import Executor
from similis.model.embedding_job import EmbeddingJob, PartTask, embed_part, open_encoder
from similis.model.load import ModelChoice
from similis.values import UserError


class BulkEmbedding(NamedTuple):
    """A finished job; ``embedded`` images and ``seconds`` are of this attempt, ``checksum`` is of ids and vectors."""

    folder: Path
    images: int
    dim: int
    parts: int
    embedded: int
    seconds: float
    model_hash: str
    source: str
    checksum: str


def embed_data(
    data: Manifest,
    folder: str | Path,
    model: ModelChoice,
    *,
    key: Literal["path", "content"] = "path",
    part_size: int = 4096,
    batch_size: int = 64,
    executor: Executor | None = None,
    on_part: Callable[[int, int], None] | None = None,
) -> BulkEmbedding:
    """Embed every image of a data set into a folder of Parquet part files; call it again to continue.

    Args:
        data: of :func:`similis.open_data`.
        folder: new, or of an earlier attempt with the same model, data and part size; all workers must see it.
        model: that embeds; workers open it by its name.
        key: what the id of a vector is: the path of its image relative to the source, or the hash of its contents. Both
            stay when images are added.
        part_size: rows of a part: what a killed worker loses at most.
        batch_size: images in one forward.
        executor: where tasks run; None for this process.
        on_part: called after each part with the images that this attempt has to embed, and those of the part.
    """
    if part_size < 1 or batch_size < 1:
        raise UserError(f"part_size={part_size} and batch_size={batch_size} given; both are at least 1")
    if is_url(str(folder)):
        raise UserError(f"{folder} is a URL; give a folder, and copy the finished part files there")
    check_keys(data, key)
    begun, executor, place = time.perf_counter(), executor or Executor(), Path(folder)
    open_encoder.cache_clear()  # the folder may hold another model than at an earlier call
    encoder, model_hash = open_encoder(model)
    rows = torch.split(torch.arange(len(data)), part_size)
    threads = None if executor.on_ray else worker_threads(executor.workers or 1)
    job = EmbeddingJob(
        model, model_hash, data.fingerprint(), key, place.absolute(), len(rows), part_size, batch_size, threads
    )
    job.check_folder()
    tasks = [PartTask(job, number, data.select(part)) for number, part in enumerate(rows)]
    left = [task for task in tasks if not task.is_whole]
    embedded = sum(len(task.data) for task in left)
    on_finished = None if on_part is None else partial(on_part, embedded)
    replace(executor, on_finished=on_finished).map(embed_part, left)
    whole = finish(job)
    seconds = time.perf_counter() - begun
    dim = encoder.embedder.dim
    return BulkEmbedding(place, len(data), dim, job.parts, embedded, seconds, model_hash, job.source, whole)


def check_keys(data: Manifest, key: str) -> None:
    """Raise unless every image has an id of its own."""
    values = data.values(key)
    twice = next((name for name, count in Counter(values).items() if count > 1), None)
    if twice is not None:
        other = {"path": "content", "content": "path"}[key]
        raise UserError(f"several images of {data.name!r} have the {key} {twice!r}; use the other id: --key {other}")


def finish(job: EmbeddingJob) -> str:
    """Remove what killed workers left; the checksum of all parts."""
    for leftover in job.folder.glob(".part-*"):
        leftover.unlink(missing_ok=True)
    stamps = [read_stamp(job.path(number)) or {} for number in range(job.parts)]
    return hashlib.sha256("".join(f"{stamp['ids']} {stamp['vectors']} " for stamp in stamps).encode()).hexdigest()


def worker_threads(workers: int) -> int | None:
    """Threads of each of several processes, which share the processors; one process keeps torch's choice."""
    return None if workers == 1 else max(1, (os.cpu_count() or 1) // workers)
