"""One part of a bulk embedding: rows of the data in, a Parquet file with its stamp out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from similis.data.manifest import Manifest
from similis.data.readers.part_files import SHARED, list_part_files, read_stamp, vector_table
from similis.model.encoding import Encoder
from similis.model.load import ModelChoice
from similis.run.machine import Machine
from similis.training.files import replace_file
from similis.values import DataError, UserError, import_extra

FORMAT = "similis-embedding-2"


@dataclass(frozen=True)
class EmbeddingJob:
    """What all parts of a bulk embedding share.

    Attributes:
        model: that embeds.
        model_hash: of its weights, network and preprocessing.
        source: the fingerprint of the data.
        key: the column of the data that ids are taken from.
        folder: of the part files.
        parts: their number.
        part_size: rows of a part; the last may have fewer.
        batch_size: images in one forward.
        threads: of a worker; None leaves torch's choice.
    """

    model: ModelChoice
    model_hash: str
    source: str
    key: str
    folder: Path
    parts: int
    part_size: int
    batch_size: int
    threads: int | None = None

    @property
    def shared(self) -> dict[str, Any]:
        """Metadata that all part files of the job share."""
        return dict(
            zip(SHARED, (FORMAT, self.model_hash, self.source, self.key, self.part_size, self.parts), strict=True)
        )

    def path(self, number: int) -> Path:
        """The file of a part."""
        return self.folder / f"part-{number:06d}.parquet"

    def check_folder(self) -> None:
        """Raise unless the folder is new, empty, or that of an earlier attempt at the same job."""
        files, own = list_part_files(self.folder), {self.path(number) for number in range(self.parts)}
        others = sorted(path.name for path in self.folder.glob("[!.]*") if path not in files)
        if others:
            raise UserError(f"{self.folder} holds {others[0]!r}, which is no part file; give a new folder")
        for path in files:
            stamp = read_stamp(path)
            if stamp is None and path in own:
                continue  # damaged, and written again
            held = stamp or {}
            differ = [
                f"{key} {str(held.get(key))[:12]} instead of {str(value)[:12]}"
                for key, value in self.shared.items()
                if held.get(key) != value
            ]
            if differ:
                raise UserError(
                    f"{path} is of another embedding ({', '.join(differ)}); give a new folder, or the model, the data "
                    "and the part size that this one was begun with"
                )


class PartTask(NamedTuple):
    """One part to embed: its job, its number, and its rows of the data."""

    job: EmbeddingJob
    number: int
    data: Manifest

    @property
    def stamp(self) -> dict[str, Any]:
        """What the file of the part states, but for the checksum of its vectors."""
        return self.job.shared | {"part": self.number, "ids": checksum(self.data.ids)}

    @property
    def is_whole(self) -> bool:
        """Whether the file of the part is there with all that it must state."""
        return self.stamp.items() <= (read_stamp(self.job.path(self.number)) or {}).items()


def embed_part(task: PartTask) -> int:
    """Embed one part and write its file, unless it is there; the number of its images."""
    job, number, data = task
    if task.is_whole:  # by a worker that was believed to be lost
        return len(data)
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    encoder, model_hash = open_encoder(job.model)
    if model_hash != job.model_hash:
        raise DataError(
            f"a worker found another model at {job.model.name!r} ({model_hash[:12]} instead of "
            f"{job.model_hash[:12]}); give all nodes the same files"
        )
    vectors = encoder.encode(data, job.batch_size).float()
    table = vector_table(data, vectors, task.stamp | {"vectors": checksum(vectors)})
    texts = [name for name in table.column_names if name != "vector"]  # numbers of vectors do not repeat
    write = partial(import_extra("pyarrow.parquet").write_table, table, use_dictionary=texts)
    replace_file(job.path(number), write)
    return len(data)


@lru_cache(maxsize=1)
def open_encoder(choice: ModelChoice) -> tuple[Encoder, str]:
    """The network of a choice and its hash, opened once for all parts that a process embeds."""
    model = choice.open()
    return Encoder(model.embedder, Machine(device=choice.device, cache_bytes=0)), model.model_hash


def checksum(values: torch.Tensor) -> str:
    """The sha256 of a tensor's numbers."""
    return hashlib.sha256(values.contiguous().numpy().tobytes()).hexdigest()
