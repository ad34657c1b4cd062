"""A real server in a process of its own, and a real browser that may talk to nobody else."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
]  # fmt: skip
KEY = "a key that only the tests know"
DEADLINE = 240.0  # seconds that a busy machine may take
DESKTOP = {"viewport": {"width": 1280, "height": 860}}
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def free_port() -> int:
    """A port of the loopback address that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_ready(address: str) -> bool:
    """Whether the server has loaded its model."""
    try:
        with urllib.request.urlopen(f"{address}/ready", timeout=5) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


def start_server(folder: Path, port: int, *options: str) -> subprocess.Popen[bytes]:
    """``similis serve`` on a folder; returns once it is ready."""
    command = [sys.executable, "-c", "from similis.cli import main; main()", "serve", str(folder), "--port", str(port)]
    process = subprocess.Popen([*command, *options], env={**os.environ, "SIMILIS_KEY": KEY})
    end = time.monotonic() + DEADLINE
    while not is_ready(f"http://127.0.0.1:{port}"):
        if process.poll() is not None or time.monotonic() > end:
            stop_server(process)
            raise RuntimeError(f"the server of {folder} did not become ready; exit code {process.returncode}")
        time.sleep(0.05)
    return process


def stop_server(process: subprocess.Popen[bytes]) -> None:
    """End a server and wait for it."""
    process.terminate()
    try:
        process.wait(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """The address of a server that runs as long as the block."""
    port = free_port()
    process = start_server(folder, port, *options)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        stop_server(process)


@contextmanager
def browsing() -> Iterator[Any]:
    """Debian's Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def visiting(browser: Any, address: str, *, path: str = "/", refusals: bool = False, **options: Any) -> Iterator[Any]:
    """A page in a session of its own; at the end it has reported no error and asked nobody but the server.

    Args:
        browser: of :func:`browsing`.
        address: of the server.
        path: that is opened, with a fragment perhaps.
        refusals: whether the server may refuse or not answer, which the browser reports as an error of its own.
        options: of the session: size, colour scheme.
    """
    context = browser.new_context(**{**DESKTOP, **options})
    page = context.new_page()
    page.set_default_timeout(1000 * DEADLINE / 4)
    reported, asked = [], []
    page.on("console", lambda message: reported.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: reported.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address + path)
    yield page
    context.close()
    if refusals:
        reported = [text for text in reported if not text.startswith("Failed to load resource")]
    assert reported == []
    assert [url for url in asked if not url.startswith((address, "blob:", "data:"))] == []
