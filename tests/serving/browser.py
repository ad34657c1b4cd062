"""A real browser that may talk to nobody but the server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
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
