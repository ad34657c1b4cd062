"""The run folder: what a run leaves behind, and how it is read again.

::

    runs/ADDRESS/
      spec.json          the validated specification
      environment.json   versions, machine, data and code fingerprints
      metrics.jsonl      one JSON object per line: steps, validations
      events/            the same for TensorBoard, where it is installed
      checkpoint.safetensors   the last position (removed when the run is done)
      model.safetensors  the chosen weights
      result.json        written last: the run is done when it is there
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


class RunFolder:
    """Paths and files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.result = path / "result.json"
        self.model = path / "model.safetensors"

    def checkpoint(self, stage: str) -> Path:
        """Where the last position of a stage (``select`` or ``refit``) is kept."""
        return self.path / f"checkpoint-{stage}.safetensors"

    def write(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON file atomically."""
        self.path.mkdir(parents=True, exist_ok=True)
        beside = self.path / f".{name}.{os.getpid()}"
        beside.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(self.path / name)

    def read(self, name: str) -> dict[str, Any] | None:
        """Read a JSON file; None if it is not there."""
        path = self.path / name
        if not path.exists():
            return None
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return value

    def tidy(self, names: Iterable[str]) -> None:
        """Remove files that a finished run no longer needs, and halves that a killed process left beside them."""
        for path in [*(self.path / name for name in names), *self.path.glob(".*")]:
            path.unlink(missing_ok=True)

    def log(self, record: Mapping[str, Any]) -> None:
        """Append one line to the metrics."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, sort_keys=True) + "\n")

    def records(self) -> Iterator[dict[str, Any]]:
        """The lines of the metrics; a line that a crash cut short ends them."""
        if not self.metrics.exists():
            return
        for line in self.metrics.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return

    def forget_after(self, stage: str, step: int, epoch: int) -> None:
        """Drop the lines of a stage that lie beyond a checkpoint, before they are written again.

        A validation carries its epoch: one after the checkpoint's last step may be later than the checkpoint.
        """
        if not self.metrics.exists():
            return
        kept = [r for r in self.records() if r["stage"] != stage or (r["step"] <= step and r.get("epoch", 0) <= epoch)]
        beside = self.metrics.with_name(f".metrics.{os.getpid()}")
        beside.write_text("".join(json.dumps(r, sort_keys=True) + "\n" for r in kept), encoding="utf-8")
        beside.replace(self.metrics)
