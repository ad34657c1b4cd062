"""TensorBoard event files, where TensorBoard is installed."""

from __future__ import annotations

import importlib
import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

logger = logging.getLogger(__name__)


class Events:
    """Scalars for TensorBoard; without it, nothing is written and nothing is missed (metrics.jsonl has all).

    Records are written by the calling thread: TensorBoard's own writer has a thread, and when the disk is full the
    error is raised there, where no caller can catch it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: BinaryIO | None = None
        self._writer: Any = None
        self._event: Any = None

    def __enter__(self) -> Events:
        try:
            records = importlib.import_module("tensorboard.summary.writer.record_writer")
            self._event = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = (self.folder / f"events.out.tfevents.{time.time_ns()}.{os.getpid()}").open("wb")
            self._writer = records.RecordWriter(self._file)
            self._write({"file_version": "brain.Event:2"})
        except ImportError:
            pass
        except OSError as error:
            self._give_up(error)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with suppress(OSError):  # every record was flushed when it was written
                self._file.close()

    def scalar(self, name: str, value: float, step: int) -> None:
        """One value at one step."""
        self._write({"step": step, "summary": {"value": [{"tag": name, "simple_value": value}]}})

    def _write(self, fields: Mapping[str, Any]) -> None:
        """One record, flushed, so that a running TensorBoard shows it."""
        if self._writer is None:
            return
        try:
            self._writer.write(self._event(wall_time=time.time(), **fields).SerializeToString())
            self._writer.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Go on without event files."""
        self._writer = None
        logger.warning("no more TensorBoard events in %s (%s); metrics.jsonl has all", self.folder, error.strerror)
