"""Real servers on loopback, and short words for asking them."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import requests

from tests.data.pictures import picture

KEY = "a-key-of-the-tests"
ROOT = Path(__file__).parents[2]
DEADLINE = 120.0  # seconds for whatever a loaded machine may take
KINDS, EACH = 4, 6


def photo(number: int) -> bytes:
    """An image that differs from all others."""
    return picture(number, 60, 40)


PHOTOS = {f"kind{c}/{n}.png": photo(10 * c + n) for c in range(KINDS) for n in range(EACH)}


class Server:
    """A server that runs until the block is left; its log must hold no traceback then."""

    def __init__(self, folder: Path, *, around: Sequence[str] = (), key: str = KEY, **options: Any) -> None:
        self.words = [*around, sys.executable, "-m", "tests.serving.launch", str(folder), json.dumps(options)]
        self.environment = {**os.environ, "SIMILIS_KEY": key, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        self.session = requests.Session()

    def __enter__(self) -> "Server":
        self.process = subprocess.Popen(
            self.words, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE)
        line = self.process.stdout.readline().strip() if ready else ""
        assert line, self.said()
        self.address, _, self.key = (part.rstrip("/") for part in line.partition("#key="))
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGTERM)
        said = self.said()
        self.log.close()
        assert "Traceback" not in said, said

    def stop(self, how: signal.Signals) -> int:
        """End the process; its exit code."""
        self.session.close()
        self.process.send_signal(how)
        code = self.process.wait(DEADLINE)
        self.process.stdout.close()
        return code

    def said(self) -> str:
        """What it has logged."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

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
