"""Run records: everything that a report needs of each finished run.

While a tournament runs, each record is a JSON file of its own; ``pack`` puts them into one Parquet file to keep.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from similis.engine.device import peak_memory
from similis.run.machine import Watch
from similis.run.result import RunResult
from similis.run.spec import RunSpec
from similis.training.files import in_one_line, replace_file
from similis.training.folder import RunFolder
from similis.training.loop import StepReport
from similis.values import UserError, import_extra

Record = dict[str, Any]


class Records:
    """The records of a tournament by name, one file each or packed; one that is there is never written again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packed = folder.with_suffix(".parquet")

    def write(self, name: str, record: Mapping[str, Any]) -> Record:
        """Write a record atomically; what a reader will find is returned."""
        RunFolder(self.folder).write(f"{name}.json", {"name": name, **record})
        written = self.read(name)
        assert written is not None
        return written

    def read(self, name: str) -> Record | None:
        """The record of that name, None if its run is not finished."""
        text = self._read_packed().get(name)
        return RunFolder(self.folder).read(f"{name}.json") if text is None else json.loads(text)

    def all(self, kind: str) -> list[Record]:
        """All records of a kind (``trial``, ``search``, ``final``, ``floor``), by name."""
        texts = {p.stem: p.read_text(encoding="utf-8") for p in self.folder.glob("*.json")} | self._read_packed()
        return [json.loads(text) for name, text in sorted(texts.items()) if name.startswith(f"{kind}-")]

    def pack(self) -> Path:
        """Move all records into one Parquet file beside the folder, with columns to filter by."""
        arrow, parquet = (import_extra(name) for name in ("pyarrow", "pyarrow.parquet"))
        found = [each for kind in ("final", "search", "trial", "floor") for each in self.all(kind)]
        columns = {
            key: [each.get(key) for each in found] for key in ("name", "contestant", "arena", "repetition", "fold")
        }
        columns["recall@1"] = [each.get("test", {}).get("recall@1") for each in found]
        columns["record"] = [json.dumps(each, sort_keys=True) for each in found]
        table = arrow.table(columns)
        replace_file(self.packed, lambda beside: parquet.write_table(table, beside, compression="zstd"))
        shutil.rmtree(self.folder, ignore_errors=True)  # what killed processes have left half-written, too
        return self.packed

    def _read_packed(self) -> dict[str, str]:
        """Text by name of the records in the Parquet file, of which there may be none."""
        return read_packed(self.packed, self.packed.stat().st_mtime_ns) if self.packed.exists() else {}


@lru_cache(maxsize=32)
def read_packed(path: Path, time: int) -> dict[str, str]:  # noqa: ARG001 - a changed file is read again
    """Text by name of the records in a Parquet file."""
    parquet = import_extra("pyarrow.parquet")
    try:
        table = parquet.read_table(path, columns=["name", "record"])
    except (OSError, ValueError) as error:  # Arrow's own errors are values
        raise UserError(f"{path} is damaged ({in_one_line(error)}); copy it again, or delete and rerun it") from error
    return dict(zip(table["name"].to_pylist(), table["record"].to_pylist(), strict=True))


class Meter(Watch):
    """Adds up the time of the steps of a run; a second instance sees only its own runs."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def on_step(self, report: StepReport, mined: Mapping[str, int]) -> None:  # noqa: ARG002
        """Add the step's time."""
        self.seconds += report.seconds

    def cost(self) -> dict[str, float]:
        """Seconds of training steps, and the peak memory of this process so far."""
        memory = peak_memory(torch.device("cpu")) or 0  # which some systems do not tell
        return {"seconds": round(self.seconds, 3), "memory_mb": round(memory / 2**20, 1)}


def result_record(result: RunResult, spec: RunSpec) -> Record:
    """What a report needs of a run: its specification without local paths, and hits counted by class."""
    kept = {key: value for key, value in result.to_json().items() if key not in ("whole", "cost")}
    samples = training_samples(result.spec, result.facts["images"], len(result.history), result.epochs)
    return kept | {"spec": spec.model_dump(mode="json"), "samples": samples, "per_class": per_class(result.scores())}


def training_samples(spec: RunSpec, images: Mapping[str, int], epochs: int, refit_epochs: int) -> int:
    """Images that passed through the network in training: whole batches, the refit on all training classes included."""
    size = spec.training.batch_size
    refits = spec.training.refit and spec.data.protocol == "fixed-validation"
    refit = epoch_samples(images["train"] + images["validation"], size) if refits else 0
    return epochs * epoch_samples(images["train"], size) + refit_epochs * refit


def epoch_samples(images: int, batch_size: int) -> int:
    """Images of an epoch: whole batches only."""
    return images // batch_size * batch_size


def check_sources(record: Record, sources: Mapping[str, str], folder: Path) -> Record:
    """The record, if what it names is computed as it was; an edited formula is another contestant.

    Args:
        record: kept by an earlier call.
        sources: part -> hash of its source now.
        folder: of the tournament, for the error.
    """
    edited = [part for part, now in sources.items() if record.get("sources", sources).get(part) != now]
    if edited:
        since = f"the source of the {edited[0]} of {record['contestant']} was edited since its results in {folder}"
        raise UserError(f"{since} were computed; give the contestant another name, or choose another folder")
    return record


def per_class(scores: Mapping[str, Tensor]) -> dict[str, list[int]]:
    """Class labels, their queries that have a match, and how many of these found one first."""
    if "recall@1" not in scores:
        return {}
    value, labels = scores["recall@1"], scores["labels"]
    counted = value.isfinite()
    classes, place = torch.unique(labels[counted], return_inverse=True)
    hits = torch.zeros(len(classes), dtype=torch.float64).index_add_(0, place, value[counted].double())
    queries = torch.bincount(place, minlength=len(classes))
    return {"labels": classes.tolist(), "queries": queries.tolist(), "hits": [round(h) for h in hits.tolist()]}
