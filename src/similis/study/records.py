"""Run records: small JSON files that hold everything the report needs, one for each finished run."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from similis.run.result import RunResult
from similis.training.loop import StepReport

Record = dict[str, Any]


class Records:
    """A folder of records by name; a record that is there is never written again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """The file of a record."""
        return self.folder / f"{name}.json"

    def write(self, name: str, record: Mapping[str, Any]) -> Record:
        """Write a record atomically; what a reader will find is returned."""
        self.folder.mkdir(parents=True, exist_ok=True)
        beside = self.folder / f".{name}.{os.getpid()}"
        text = json.dumps({"name": name, **record}, sort_keys=True)
        beside.write_text(text + "\n", encoding="utf-8")
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(self.path(name))
        written: Record = json.loads(text)
        return written

    def read(self, name: str) -> Record | None:
        """The record of that name, None if its run is not finished."""
        path = self.path(name)
        if not path.exists():
            return None
        found: Record = json.loads(path.read_text(encoding="utf-8"))
        return found

    def all(self, kind: str) -> list[Record]:
        """All records of a kind (``trial``, ``search``, ``final``), by name."""
        return [json.loads(p.read_text(encoding="utf-8")) for p in sorted(self.folder.glob(f"{kind}-*.json"))]


class Meter:
    """Looks on at a run and adds up the time of its steps; a second instance sees only what it looks at."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def begins(self, stage: str, epochs: int, steps: int, done: int) -> None:
        """Nothing to do."""

    def stepped(self, report: StepReport, mined: Mapping[str, int]) -> None:  # noqa: ARG002
        """Add the step's time."""
        self.seconds += report.seconds

    def validated(self, epoch: int, value: float, best: float) -> None:
        """Nothing to do."""

    def ends(self, result: Mapping[str, Any]) -> None:
        """Nothing to do."""

    def cost(self) -> dict[str, float]:
        """Seconds of training steps, and the peak memory of this process so far."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"seconds": round(self.seconds, 3), "memory_mb": round(peak, 1)}


def result_record(result: RunResult) -> Record:
    """What a report needs of a run; counts of hits instead of every query's score."""
    return {
        "address": result.address,
        "spec": result.spec.model_dump(mode="json"),
        "facts": dict(result.facts),
        "epochs": result.epochs,
        "trained_on": result.trained_on,
        "selected_on": result.selected_on,
        "validation": dict(result.validation),
        "history": list(result.history),
        "test": dict(result.test),
        "excluded": result.excluded,
        "samples": samples_seen(result),
        "per_class": per_class(result.scores()),
    }


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


def samples_seen(result: RunResult) -> int:
    """Images that passed through the network in training, the refit included."""
    spec, images = result.spec, result.facts["images"]
    select = len(result.history) * epoch_samples(images["train"], spec.training.batch_size)
    refits = spec.training.refit and spec.data.protocol == "fixed-validation"
    everything = images["train"] + images["validation"]
    return select + (result.epochs * epoch_samples(everything, spec.training.batch_size) if refits else 0)


def epoch_samples(images: int, batch_size: int) -> int:
    """Whole batches only."""
    return images // batch_size * batch_size
