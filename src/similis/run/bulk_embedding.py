"""Embed a whole data set into part files: restartable, every image once, by processes or on a Ray cluster.

A part is a run of rows of fixed length. It is embedded by one task, and its file appears under its name when it is
whole, so a part that is there is never computed again, and what was lost is computed by the next attempt.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from similis.data.manifest import Manifest
from similis.data.readers.lance import read_lance_stamp, write_lance_vectors
from similis.data.readers.part_files import read_stamp
from similis.data.sources import is_url
from similis.engine.executor import Executor
from similis.run.embedding_job import EmbeddingJob, PartTask, check_stamp, embed_part, open_encoder
from similis.run.load import ModelChoice
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
        folder: new, or of an earlier attempt with the same model, data and part size; all workers must see it. One
            that ends in ``.lance`` becomes a Lance data set when all parts are there.
        model: that embeds; workers open it by its name.
        key: what the id of a vector is: the path of its image relative to the source, or the hash of its contents. Both
            stay when images are added.
        part_size: rows of a part: what a killed worker loses at most.
        batch_size: images in one forward.
        executor: who works; None for this process.
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
    parts_folder = place.with_name(f"{place.name}.parts") if place.suffix == ".lance" else place
    job = EmbeddingJob(
        model, model_hash, data.fingerprint(), key, parts_folder.absolute(), len(rows), part_size, batch_size, threads
    )
    if place.suffix == ".lance" and place.exists():
        stamp = read_lance_stamp(str(place))
        check_stamp(stamp, job.shared, place)
        shutil.rmtree(job.folder, ignore_errors=True)  # of an attempt that was killed at its very end
        embedded, whole = 0, stamp["checksum"]
    else:
        job.check_folder()
        tasks = [PartTask(job, number, data.select(part)) for number, part in enumerate(rows)]
        left = [task for task in tasks if not task.is_whole]
        embedded = sum(len(task.data) for task in left)
        on_finished = None if on_part is None else partial(on_part, embedded)
        replace(executor, on_finished=on_finished).map(embed_part, left)
        whole = finish(job, place)
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


def finish(job: EmbeddingJob, place: Path) -> str:
    """Remove what killed workers left, make a Lance data set if it is wanted; the checksum of all parts."""
    for leftover in job.folder.glob(".part-*"):
        leftover.unlink(missing_ok=True)
    paths = [job.path(number) for number in range(job.parts)]
    stamps = [read_stamp(path) or {} for path in paths]
    whole = hashlib.sha256("".join(f"{stamp['ids']} {stamp['vectors']} " for stamp in stamps).encode()).hexdigest()
    if place.suffix == ".lance":
        write_lance_vectors(paths, str(place), job.shared | {"checksum": whole})
        shutil.rmtree(job.folder)
    return whole


def worker_threads(workers: int) -> int | None:
    """Threads of each of several processes, which share the processors; one process keeps torch's choice."""
    return None if workers == 1 else max(1, (os.cpu_count() or 1) // workers)
