"""The ledger of test openings: which model opened the test split, written before it does."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from similis.training.file_lock import drop_partial_line, hold_lock
from similis.values import DataError


class Ledger:
    """An append-only file of openings; one line for each model, however often its run is resumed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, model: str, **about: Any) -> None:
        """Note that this model opens the test split; a second note of the same model changes nothing."""
        with hold_lock(self.path.with_suffix(".lock")):
            drop_partial_line(self.path)
            if any(entry["model"] == model for entry in self.entries()):
                return
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"model": model, **about}, sort_keys=True) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def entries(self) -> list[dict[str, Any]]:
        """All openings, ordered by model so that the order of processes does not show."""
        if not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8")
        lines = text[: text.rfind("\n") + 1].splitlines()  # who was cut short in a line has not opened the split yet
        try:
            found: list[dict[str, Any]] = [json.loads(line) for line in lines]
        except json.JSONDecodeError as error:
            raise DataError(f"{self.path} is damaged ({error}); the ledger is never edited by hand") from error
        return sorted(found, key=lambda entry: str(entry["model"]))

    def check(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Raise unless every tested record is in the ledger."""
        known = {entry["model"] for entry in self.entries()}
        missing = [record["name"] for record in records if record["name"] not in known]
        if missing:
            raise DataError(f"test results without an entry in {self.path}: {', '.join(missing)}; they are not shown")
