"""A server follows its collection to another model: it makes the switch that an upgrade asks for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

from similis.model.collection_file import later_model, read_about
from similis.model.load import load
from similis.serving.collection import Collection
from similis.serving.prepared import switch_store
from similis.serving.store import Store
from similis.serving.upgrade import read_request, request_of, write_request

logger = logging.getLogger(__name__)
PAUSE = 0.5  # seconds between two looks for a request
LINGER = 30.0  # seconds for which requests that began before the switch may go on


class Follower:
    """Watches for a request beside the collection, and replaces ``state.collection`` as one.

    A request that holds the old collection is answered by the old model from the old vectors to its end, so no answer
    mixes two spaces.

    Args:
        file: of the collection.
        reopen: makes the collection anew from its open store.
    """

    def __init__(self, file: Path, reopen: Callable[[Store], Collection]) -> None:
        self.file, self.reopen = file, reopen
        self._ending = Event()
        self._thread: Thread | None = None
        self._replaced: list[tuple[float, Collection]] = []  # when, and which

    def start(self, state: Any) -> None:
        """Begin to watch."""
        self._thread = Thread(target=self._watch, args=(state,), name="similis-follow", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching, and close the collections that were replaced."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        self._close_replaced(0.0)

    def _close_replaced(self, linger: float) -> None:
        while self._replaced and time.monotonic() - self._replaced[0][0] >= linger:
            self._replaced.pop(0)[1].close()

    def _watch(self, state: Any) -> None:
        while not self._ending.wait(PAUSE):
            self._close_replaced(LINGER)
            asked = read_request(self.file).get("model_hash")
            if asked is None:
                continue
            try:
                if read_about(self.file).get("model_hash") != asked:
                    self._switch(state, asked)
                request_of(self.file).unlink(missing_ok=True)
            except Exception as error:
                logger.exception("the collection stays with its model")
                write_request(self.file, error=f"{type(error).__name__}: {error}")

    def _switch(self, state: Any, model_hash: str) -> None:
        model, before = load(later_model(self.file, model_hash)), state.collection

        def switch(store: Store) -> Collection:
            switch_store(store, self.file, model)
            return self.reopen(store)

        state.collection = before.replace(switch)
        self._replaced.append((time.monotonic(), before))
