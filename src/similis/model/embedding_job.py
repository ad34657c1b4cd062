"""One part of a bulk embedding: a chunk of a collection in, a Parquet file with its stamp out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from similis.data.content import digest_of
from similis.data.manifest import Manifest
from similis.data.readers.part_files import FORMAT, place_parts, read_stamp, vector_table
from similis.data.sources import join_path
from similis.data.stream import Chunk
from similis.model.encoding import Encoder
from similis.model.load import ModelChoice
from similis.model.outputs import write_output
from similis.run.machine import Machine
from similis.values import DataError, SimilisError, import_extra

READERS = 8  # threads that fetch and decode images while the network computes


@dataclass(frozen=True)
class EmbeddingJob:
    """What all parts of a bulk embedding share.

    Attributes:
        model: that embeds.
        model_hash: of its weights, network and preprocessing.
        out: folder or URL of the part files.
        batch_size: images in one forward.
        threads: of a worker; None leaves torch's choice.
    """

    model: ModelChoice
    model_hash: str
    out: str
    batch_size: int
    threads: int | None = None


class PartTask(NamedTuple):
    """One part to embed: its job, its file, its items, and earlier files that may hold vectors of these."""

    job: EmbeddingJob
    name: str
    chunk: Chunk
    earlier: tuple[str, ...] = ()


class PartDone(NamedTuple):
    """A part that is written: its file, its stamp, and how many images the network has seen for it."""

    name: str
    stamp: dict[str, Any]
    embedded: int


class Row(NamedTuple):
    """An item: the hash of its contents, and either its vector, what the network is to see, or why there is none."""

    content: str
    vector: Tensor | None = None
    pixels: Tensor | None = None
    reason: str = ""


def part_name(model_hash: str, chunk: Chunk) -> str:
    """The file of a chunk: another model, or a change of any item, has another name."""
    return f"part-{digest_of(f'{FORMAT} {model_hash} {chunk.mark}'.encode())}.parquet"


def embed_part(task: PartTask) -> PartDone:
    """Embed one part and write its file, unless it is there."""
    job, place = task.job, join_path(task.job.out, task.name)
    if task.name not in task.earlier and (stamp := read_stamp(place)) is not None:
        return PartDone(task.name, stamp, 0)  # by a worker that was believed to be lost
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    encoder, model_hash = open_encoder(job.model)
    if model_hash != job.model_hash:
        raise DataError(
            f"a worker found another model at {job.model.name!r} ({model_hash[:12]} instead of "
            f"{job.model_hash[:12]}); give all nodes the same files"
        )
    data = task.chunk.open()
    vectors, contents, skipped, embedded = embed_rows(encoder, data, job, task.earlier)
    kept = [row for row in range(len(data)) if row not in skipped]
    keys, (first, last) = data.values("path"), task.chunk.ends
    stamp = {
        "format": FORMAT, "model": job.model_hash, "first": first, "last": last, "rows": len(kept),
        "dim": encoder.embedder.dim, "skipped": [[keys[row], why] for row, why in skipped.items()],
        "checksum": hashlib.sha256(repr((keys, contents)).encode() + vectors.numpy().tobytes()).hexdigest(),
    }  # fmt: skip
    whole = data if data.has("vector") else data.with_columns({"content": contents})
    table = vector_table(whole.select(kept), vectors[kept], stamp)
    texts = [name for name in table.column_names if name != "vector"]  # numbers of vectors do not repeat
    write_output(place, lambda file: import_extra("pyarrow.parquet").write_table(table, file, use_dictionary=texts))
    return PartDone(task.name, stamp, embedded)


def embed_rows(
    encoder: Encoder, data: Manifest, job: EmbeddingJob, earlier: Sequence[str]
) -> tuple[Tensor, list[str], dict[int, str], int]:
    """Vectors (N, D), hashes of contents, row -> why it has no vector, and how many images the network has seen."""
    vectors, skipped, embedded = torch.zeros(len(data), encoder.embedder.dim), dict[int, str](), 0
    if data.has("vector"):
        given = data.table.column("vector").combine_chunks()
        return (*encode_features(encoder, given, job.batch_size), len(given))
    known, keys, marks = read_earlier(job.out, earlier), data.values("path"), data.values("mark")
    contents = [""] * len(data)

    def read(row: int) -> Row:
        mark, content, vector = known.get(keys[row], ("", "", None))
        if vector is not None and mark and mark == marks[row]:
            return Row(content, vector)
        try:
            data_bytes = data.read_bytes(row)
            own = digest_of(data_bytes)
            return (
                Row(own, vector)
                if vector is not None and own == content
                else Row(own, None, encoder.decode(data_bytes))
            )
        except (SimilisError, OSError) as error:
            return Row("", reason=str(error.__cause__ or error))

    for rows, found in read_ahead(read, len(data), job.batch_size):
        new = {row: each.pixels for row, each in zip(rows, found, strict=True) if each.pixels is not None}
        if new:
            vectors[list(new)] = encoder.encode_pixels(torch.stack(list(new.values())))
        embedded += len(new)
        for row, each in zip(rows, found, strict=True):
            contents[row] = each.content
            if each.reason:
                skipped[row] = each.reason
            elif each.vector is not None:
                vectors[row] = each.vector
    return vectors, contents, skipped, embedded


def encode_features(encoder: Encoder, given: Any, batch_size: int) -> tuple[Tensor, list[str], dict[int, str]]:
    """As :func:`embed_rows`, for ready features; a row that is not finite, or of another length, is skipped."""
    width = encoder.embedder.backbone.features
    lengths = given.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
    right = lengths == width
    values = given.filter(right).flatten().to_numpy(zero_copy_only=False).astype(np.float32).reshape(-1, width)
    features = torch.zeros(len(given), width)
    features[torch.from_numpy(right)] = torch.from_numpy(values)
    finite = features.isfinite().all(1)
    reasons = {row: f"{lengths[row]} numbers, where the model takes {width}" for row in np.flatnonzero(~right).tolist()}
    reasons |= dict.fromkeys((~finite).nonzero()[:, 0].tolist(), "numbers that are not finite")
    return encoder.encode_features(features.nan_to_num(0, 0, 0), batch_size), [""] * len(given), reasons


def read_ahead(read: Callable[[int], Row], count: int, size: int) -> Iterator[tuple[Sequence[int], list[Row]]]:
    """Blocks of rows and what was read of them; threads read the next block while this one is used."""
    blocks = [range(start, min(start + size, count)) for start in range(0, count, size)]
    with ThreadPoolExecutor(READERS) as pool:
        coming = [pool.submit(read, row) for row in blocks[0]]
        for number, block in enumerate(blocks):
            now = coming
            coming = [pool.submit(read, row) for row in blocks[number + 1]] if number + 1 < len(blocks) else []
            yield block, [each.result() for each in now]


def read_earlier(out: str, names: Sequence[str]) -> dict[str, tuple[str, str, Tensor]]:
    """Key -> mark, hash of the contents and vector, of all items in part files of an earlier job."""
    found: dict[str, tuple[str, str, Tensor]] = {}
    for table in place_parts(out, names, ["id", "mark", "content", "vector"]):
        flat = table.column("vector").combine_chunks().flatten().to_numpy(zero_copy_only=False)
        vectors = torch.from_numpy(np.array(flat)).view(len(table), -1)
        columns = (table.column(name).to_pylist() for name in ("id", "mark", "content"))
        found |= {
            key: (mark, content, vectors[row]) for row, (key, mark, content) in enumerate(zip(*columns, strict=True))
        }
    return found


@lru_cache(maxsize=1)
def open_encoder(choice: ModelChoice) -> tuple[Encoder, str]:
    """The network of a choice and its hash, opened once for all parts that a process embeds."""
    model = choice.open()
    return Encoder(model.embedder, Machine(device=choice.device, cache_bytes=0)), model.model_hash
