"""The run folder: what a run leaves behind, and how it is read again.

::

    runs/NAME-1/
      address            of the run, whatever its folder is called
      spec.json          the validated specification
      environment.json   versions, machine, data and code fingerprints
      metrics.jsonl      one JSON object per line: steps, validations
      selection.json     the epoch that validation chose, for the record
      checkpoint-STAGE.safetensors           the last position of a stage (removed when the run is done)
      checkpoint-STAGE-previous.safetensors  the position before it, for when the last one is damaged
      checkpoint-STAGE-shards/N/             rows of sharded classes, as each rank wrote them (likewise)
      best-STAGE.safetensors                 the weights that the stage chose (removed when the run is done)
      model.safetensors  the chosen weights
      proxies.safetensors  what the loss has learned for each class, for a run that goes on from this one
      scores.safetensors, embeddings.safetensors  values of every test query, vectors of every test image
      before.safetensors vectors and answers of the network before training, for the report
      embeddings.csv     row, path and class name of every test image, in the order of the vectors
      result.json        written last: the run is done when it is there
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from similis.training.files import damage_error, explain_write_errors, replace_file

logger = logging.getLogger(__name__)


class RunFolder:
    """Paths and files of one run, and its address where that is known; only the first rank ``writes``."""

    def __init__(self, path: Path, address: str = "", *, writes: bool = True) -> None:
        self.path = path
        self.address = address
        self.writes = writes
        self.metrics = path / "metrics.jsonl"
        self.result = path / "result.json"
        self.model = path / "model.safetensors"

    def checkpoint(self, stage: str) -> Path:
        """Where the last position of a stage (``select`` or ``refit``) is kept."""
        return self.path / f"checkpoint-{stage}.safetensors"

    def best(self, stage: str) -> Path:
        """Where the chosen weights of a stage are kept until the run is done."""
        return self.path / f"best-{stage}.safetensors"

    def best_contents(self, stage: str) -> str:
        """What that file says it holds."""
        return f"{self.address}/best-{stage}"

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON file atomically."""
        text = json.dumps(value, indent=2, sort_keys=True) + "\n"
        if self.writes:
            replace_file(self.path / name, lambda beside: beside.write_text(text, encoding="utf-8"))

    def read(self, name: str) -> dict[str, Any] | None:
        """Read a JSON file; None if it is not there."""
        path = self.path / name
        if not path.exists():
            return None
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise damage_error(path, error) from error
        if not isinstance(value, dict):
            raise damage_error(path, f"it holds {type(value).__name__}, not a mapping")
        return value

    def tidy(self, names: Iterable[str]) -> None:
        """Remove files that a finished run no longer needs, and partial files of killed processes, where it may."""
        for path in [*(self.path / name for name in names), *self.path.glob(".*")] if self.writes else ():
            with suppress(OSError):
                path.unlink(missing_ok=True)
        for rows in self.path.glob("checkpoint-*-shards") if self.writes else ():
            shutil.rmtree(rows, ignore_errors=True)

    def log(self, record: Mapping[str, Any]) -> None:
        """Append one line to the metrics."""
        if not self.writes:
            return
        with explain_write_errors(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, sort_keys=True) + "\n")

    def records(self) -> Iterator[dict[str, Any]]:
        """The records of the metrics, without an incomplete last line; other unreadable lines raise a warning."""
        if not self.metrics.exists():
            return
        try:
            lines = self.metrics.read_bytes().splitlines()
        except OSError as error:
            raise damage_error(self.metrics, error) from error
        found = [read_line(line) for line in lines]
        lost = sum(record is None for record in found[:-1])
        if lost:
            logger.warning("%d of %d lines of %s cannot be read and are left out", lost, len(found), self.metrics)
        yield from (record for record in found if record is not None)

    def forget_after(self, stage: str, step: int, epoch: int) -> None:
        """Drop the records of a stage after a checkpoint's step and epoch, before they are written again."""
        if not self.writes or not self.metrics.exists():
            return
        kept = [r for r in self.records() if r["stage"] != stage or (r["step"] <= step and r.get("epoch", 0) <= epoch)]
        text = "".join(json.dumps(r, sort_keys=True) + "\n" for r in kept)
        replace_file(self.metrics, lambda beside: beside.write_text(text, encoding="utf-8"))


def read_line(line: bytes) -> dict[str, Any] | None:
    """The record in a line of the metrics; None if it holds none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and {"stage", "step"} <= record.keys() else None
