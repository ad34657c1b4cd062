"""Real servers on loopback, and short words for asking them."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import requests

from tests.data.pictures import picture
from tests.forking import FORKING
from tests.serving.launch import run

KEY = "a-key-of-the-tests"
ROOT = Path(__file__).parents[2]
DEADLINE = 240.0  # seconds for whatever a loaded machine may take
KINDS, EACH = 4, 6


def photo(number: int) -> bytes:
    """An image that differs from all others."""
    return picture(number, 60, 40)


PHOTOS = {f"kind{c}/{n}.png": photo(10 * c + n) for c in range(KINDS) for n in range(EACH)}


class Server:
    """A server that runs until the block is left; its log must hold no traceback then.

    Args:
        folder: of a saved model.
        around: a program with arguments that starts it; empty to fork it.
        key: for changes; empty for one that the server makes.
        options: of :func:`similis.serving.server.serve`; its port is any that is free if not given.
    """

    def __init__(self, folder: Path, *, around: Sequence[str] = (), key: str = KEY, **options: Any) -> None:
        self.place = tempfile.TemporaryDirectory()
        self.log, self.told = (Path(self.place.name, name) for name in ("log", "address"))
        self.given = {"folder": str(folder), "options": options, "key": key, "log": str(self.log)}
        self.given["told"], self.around = str(self.told), around
        self.session = requests.Session()

    def __enter__(self) -> "Server":
        self.log.touch()
        if self.around:
            words = [*self.around, sys.executable, "-m", "tests.serving.launch", json.dumps(self.given)]
            environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
            self.process: Any = subprocess.Popen(words, cwd=ROOT, env=environment)
        else:
            self.process = FORKING.Process(target=run, kwargs=self.given, daemon=True)
            self.process.start()
        end = time.monotonic() + DEADLINE
        while not self.told.exists() and self.code() is None and time.monotonic() < end:
            time.sleep(0.01)
        if not self.told.exists():
            self.process.kill()
            raise AssertionError(f"the server did not start: {self.said()}")
        self.address, _, self.key = (part.rstrip("/") for part in self.told.read_text().partition("#key="))
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGTERM)
        said = self.said()
        self.place.cleanup()
        assert "Traceback" not in said, said

    def code(self) -> int | None:
        """The exit code; None while it runs."""
        found: int | None = self.process.poll() if self.around else self.process.exitcode
        return found

    def stop(self, how: signal.Signals) -> int | None:
        """End the process; its exit code."""
        self.session.close()
        if self.code() is None:
            os.kill(self.process.pid, how)
        (self.process.wait if self.around else self.process.join)(DEADLINE)
        return self.code()

    def said(self) -> str:
        """What it has logged."""
        return self.log.read_text(errors="replace")

    def ask(self, method: str, path: str, *, key: str | None = None, **more: Any) -> requests.Response:
        """One request; errors must be one sentence of JSON."""
        own = {"Connection": "close"}  # one that is kept may end while a loaded machine has us wait
        headers = {**own, **({"Authorization": f"Bearer {key}"} if key else {}), **more.pop("headers", {})}
        answer = self.session.request(method, self.address + path, headers=headers, timeout=DEADLINE, **more)
        if answer.status_code >= 400:
            assert list(answer.json()) == ["error"], answer.text
            assert "\n" not in answer.json()["error"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        return answer

    def get(self, path: str, **values: Any) -> requests.Response:
        return self.ask("GET", path, params=values)

    def form(self, path: str, files: dict[str, bytes] | None = None, **more: Any) -> requests.Response:
        """A multipart form; fields and files by their names."""
        key = more.pop("key", None)
        parts = [(name, (None, str(value))) for name, value in more.items()]
        parts += [(name, ("name", data)) for name, data in (files or {}).items()]
        return self.ask("POST", path, key=key, files=parts)

    def enrol(self, data: bytes, name: str, label: str | None = None) -> requests.Response:
        return self.form("/v1/items", {"file": data}, ids=name, **({"label": label} if label else {}), key=KEY)

    def listed(self) -> dict[str, str | None]:
        """Id -> label of all items, of which none may occur twice."""
        found: list[tuple[str, str | None]] = []
        after = ""
        while after is not None:
            page = self.get("/v1/items", after=after, limit=1000).json()
            found += [(item["id"], item["label"]) for item in page["items"]]
            after = page["next"]
        assert len(dict(found)) == len(found)
        return dict(found)

    def connect(self) -> socket.socket:
        """A bare connection."""
        host, _, port = self.address.removeprefix("http://").partition(":")
        return socket.create_connection((host, int(port)), timeout=DEADLINE)
