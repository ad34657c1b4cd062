"""Run records: small JSON files that hold everything the report needs, one for each finished run."""

from __future__ import annotations

import json
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from similis.run.machine import Silence
from similis.run.result import RunResult
from similis.study.plan.cost import training_samples
from similis.training.folder import RunFolder
from similis.training.loop import StepReport

Record = dict[str, Any]


class Records:
    """A folder of records by name; a record that is there is never written again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, record: Mapping[str, Any]) -> Record:
        """Write a record atomically; what a reader will find is returned."""
        RunFolder(self.folder).write(f"{name}.json", {"name": name, **record})
        written = self.read(name)
        assert written is not None
        return written

    def read(self, name: str) -> Record | None:
        """The record of that name, None if its run is not finished."""
        return RunFolder(self.folder).read(f"{name}.json")

    def all(self, kind: str) -> list[Record]:
        """All records of a kind (``trial``, ``search``, ``final``), by name."""
        return [json.loads(p.read_text(encoding="utf-8")) for p in sorted(self.folder.glob(f"{kind}-*.json"))]


class Meter(Silence):
    """Adds up the time of the steps of a run; a second instance sees only its own runs."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def stepped(self, report: StepReport, mined: Mapping[str, int]) -> None:  # noqa: ARG002
        """Add the step's time."""
        self.seconds += report.seconds

    def cost(self) -> dict[str, float]:
        """Seconds of training steps, and the peak memory of this process so far."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"seconds": round(self.seconds, 3), "memory_mb": round(peak, 1)}


def result_record(result: RunResult) -> Record:
    """What a report needs of a run; counts of hits instead of every query's score."""
    kept = {key: value for key, value in result.to_json().items() if key not in ("whole", "cost")}
    samples = training_samples(result.spec, result.facts["images"], len(result.history), result.epochs)
    return kept | {"samples": samples, "per_class": per_class(result.scores())}


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
