"""Embed a whole collection into part files: streamed, restartable, every item once, by processes or on a Ray cluster.

A part is a chunk of the collection, named after what it holds and the model. Its file appears when it is whole, so a
part that is there is never computed again. ``_embedding.json`` lists the parts and is replaced last: readers find the
earlier state of the collection or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from similis.data.manifest import Manifest
from similis.data.readers.part_files import FORMAT, LISTING, SKIPPED, is_part, read_stamp
from similis.data.sources import is_url, join_path
from similis.data.stream import Chunk, stream_data
from similis.engine.executor import Executor
from similis.model.embedding_job import EmbeddingJob, PartDone, PartTask, embed_part, open_encoder, part_name
from similis.model.load import ModelChoice
from similis.model.outputs import list_outputs, remove_output, write_output
from similis.values import DataError, UserError, import_extra

ENOUGH = 1000  # items after which too large a share of unreadable ones ends the job at once
Stamps = dict[str, dict[str, Any]]


class BulkEmbedding(NamedTuple):
    """A finished job.

    Attributes:
        folder: of the part files.
        images: that have a vector.
        dim: of a vector.
        parts: files.
        embedded: images that the network has seen in this attempt.
        skipped: items that could not be read; ``skipped.parquet`` says why.
        seconds: of this attempt.
        model_hash: of the model.
        checksum: of ids, contents and vectors; equal for equal ones.
    """

    folder: str
    images: int
    dim: int
    parts: int
    embedded: int
    skipped: int
    seconds: float
    model_hash: str
    checksum: str


def embed_data(
    source: str | Path | Manifest,
    folder: str | Path,
    model: ModelChoice,
    *,
    part_size: int = 4096,
    batch_size: int = 64,
    max_skipped: float = 0.01,
    executor: Executor | None = None,
    on_part: Callable[[int], None] | None = None,
    root: str | None = None,
    allow_counts: bool = False,
) -> BulkEmbedding:
    """Embed every item of a collection into a folder of Parquet part files; call it again to continue, or to update.

    Items are known by their paths. One that is new, or whose size, ETag or time of change differs and whose contents
    differ too, is embedded; one that is gone leaves; all others keep their vectors.

    Args:
        source: what :func:`similis.data.stream.stream_data` takes.
        folder: a folder or an fsspec URL, new, or of an earlier attempt with the same model; all workers must see it.
        model: that embeds; workers open it by its name.
        part_size: images of a part at most: what a killed worker loses.
        batch_size: images in one forward.
        max_skipped: share of unreadable items above which the job ends with an error.
        executor: where tasks run; None for this process.
        on_part: called after each part with the number of its items.
        root: the folder of the known data sets.
        allow_counts: accept a known data set whose counts differ from the official ones.
    """
    if part_size < 1 or batch_size < 1 or not 0 <= max_skipped <= 1:
        raise UserError(
            f"part_size={part_size}, batch_size={batch_size}, max_skipped={max_skipped} given; the first two are at "
            "least 1, the last is from 0 to 1"
        )
    begun, executor = time.perf_counter(), executor or Executor()
    out = str(folder) if is_url(str(folder)) else str(Path(folder).absolute())
    open_encoder.cache_clear()  # the folder may hold another model than at an earlier call
    _, model_hash = open_encoder(model)
    job = EmbeddingJob(
        model, model_hash, out, batch_size, None if executor.on_ray else worker_threads(executor.workers)
    )
    progress = Progress(job, read_stamps(job), max_skipped, on_part)
    chunks = stream_data(source, part_size, root=root, allow_counts=allow_counts)
    replace(executor, on_finished=progress.note).map(embed_part, progress.tasks(chunks))
    return progress.finish(begun)


class Progress:
    """The parts of a job: those of earlier attempts, and those of now in the order of the collection."""

    def __init__(
        self, job: EmbeddingJob, earlier: Stamps, max_skipped: float, on_part: Callable[[int], None] | None
    ) -> None:
        self.job, self.earlier, self.max_skipped, self.on_part = job, earlier, max_skipped, on_part
        self.parts: dict[str, dict[str, Any]] = {}  # name -> stamp, empty until it is done
        self.embedded = self.seen = self.skipped = 0
        self.example: list[str] = []  # an item that could not be read, and why

    def tasks(self, chunks: Iterator[Chunk]) -> Iterator[PartTask]:
        """What is left to do; a part with unreadable items is tried again, its other items keep their vectors."""
        for chunk in chunks:
            name = part_name(self.job.model_hash, chunk)
            known = self.earlier.get(name)
            self.parts[name] = known or {}
            if known is not None and not known["skipped"]:
                self._count(known)
            else:
                yield PartTask(self.job, name, chunk, self._overlapping(chunk))

    def note(self, done: PartDone) -> None:
        """A part is done."""
        self.parts[done.name] = done.stamp
        self.embedded += done.embedded
        self._count(done.stamp)
        if self.on_part is not None:
            self.on_part(done.stamp["rows"] + len(done.stamp["skipped"]))
        if self.seen >= ENOUGH:
            self._check_skipped()

    def finish(self, begun: float) -> BulkEmbedding:
        """List all parts, then remove what is no longer one of them, and what killed workers left."""
        out, stamps = self.job.out, list(self.parts.values())
        if not stamps:
            raise DataError("the source holds no image and no Parquet file; check the path and the file endings")
        unread = [(*line, name) for name, stamp in self.parts.items() for line in stamp["skipped"]]
        self._check_skipped()
        if unread:
            columns = dict(zip(("id", "reason", "part"), map(list, zip(*unread, strict=True)), strict=True))
            table = import_extra("pyarrow").table(columns)
            write_output(join_path(out, SKIPPED), partial(import_extra("pyarrow.parquet").write_table, table))
        images = sum(stamp["rows"] for stamp in stamps)
        whole = hashlib.sha256("".join(stamp["checksum"] for stamp in stamps).encode()).hexdigest()
        listing = {"format": FORMAT, "model": self.job.model_hash, "dim": stamps[0]["dim"], "images": images,
                   "parts": [[name, stamp["rows"]] for name, stamp in self.parts.items()]}  # fmt: skip
        text = json.dumps(listing).encode()
        write_output(join_path(out, LISTING), lambda file: write_bytes(file, text))
        for name in list_outputs(out):
            if (is_part(name.lstrip(".")) and name not in self.parts) or (name == SKIPPED and not unread):
                remove_output(out, name)
        seconds = time.perf_counter() - begun
        return BulkEmbedding(
            out, images, stamps[0]["dim"], len(stamps), self.embedded, len(unread), seconds, self.job.model_hash, whole
        )

    def _count(self, stamp: dict[str, Any]) -> None:
        self.seen += stamp["rows"] + len(stamp["skipped"])
        self.skipped += len(stamp["skipped"])
        self.example = self.example or next(iter(stamp["skipped"]), [])

    def _check_skipped(self) -> None:
        if self.skipped > self.max_skipped * self.seen:
            key, why = self.example
            raise DataError(
                f"{self.skipped:,} of {self.seen:,} items could not be read, for example {key!r} ({why}); mend them, "
                f"or allow it: --max-skipped {self.skipped / self.seen:.2g}. What is embedded stays"
            )

    def _overlapping(self, chunk: Chunk) -> tuple[str, ...]:
        """Earlier parts whose paths reach into those of a chunk."""
        first, last = chunk.ends
        return tuple(name for name, own in self.earlier.items() if own["first"] <= last and own["last"] >= first)


def read_stamps(job: EmbeddingJob) -> Stamps:
    """What the part files of earlier attempts state; a folder with anything else raises an error."""
    names = list_outputs(job.out)
    others = [name for name in names if not is_part(name.lstrip(".")) and name not in (LISTING, SKIPPED)]
    if others:
        raise UserError(f"{job.out} holds {others[0]!r}, which is no part file; give a new folder")
    parts = [name for name in names if is_part(name)]
    with ThreadPoolExecutor(8) as pool:
        found = dict(zip(parts, pool.map(lambda name: read_stamp(join_path(job.out, name)), parts), strict=True))
    stamps = {name: stamp for name, stamp in found.items() if stamp is not None}  # a damaged one is written again
    for name, stamp in stamps.items():
        if (stamp.get("format"), stamp.get("model")) != (FORMAT, job.model_hash):
            raise UserError(
                f"{join_path(job.out, name)} is of another embedding (model {str(stamp.get('model'))[:12]} instead of "
                f"{job.model_hash[:12]}, format {stamp.get('format')}); give a new folder, or the model that this one "
                "was begun with"
            )
    return stamps


def write_bytes(file: Any, data: bytes) -> None:
    """Write to a path, or to an open file."""
    file.write_bytes(data) if isinstance(file, Path) else file.write(data)


def worker_threads(workers: int | None) -> int | None:
    """Threads of each of several processes, which share the processors; one process keeps torch's choice."""
    return None if workers in (None, 1) else max(1, (os.cpu_count() or 1) // workers)
