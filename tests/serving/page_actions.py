"""What the tests of the page do again and again."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tests.serving.browser import DEADLINE
from tests.serving.drawn_photos import draw, encode

expect = pytest.importorskip("playwright.sync_api", reason="needs Playwright").expect
expect.set_options(timeout=1000 * DEADLINE / 4)


@contextmanager
def answered(page):
    """Wait until the answer to what is done in the block is on the page."""
    with page.expect_response("**/v1/search") as reply:
        yield
    assert reply.value.ok
    expect(page.locator("body")).to_have_attribute("aria-busy", "false")


def photo(kind, name="photo.png"):
    return {"name": name, "mimeType": "image/png", "buffer": encode(draw(kind, 50))}


def jpeg(data):
    return {"name": "photo.jpg", "mimeType": "image/jpeg", "buffer": data}


def upload(page, file):
    with answered(page):
        page.set_input_files("#file", file)


def labels(page):
    return page.locator("#items .name").all_inner_texts()


def scores(page):
    """As they stand on the tiles."""
    return [float(text) for text in page.locator(".pick .number").all_inner_texts()]


def mark_threshold(page):
    """Switch the line between same and different on."""
    if page.get_attribute("#tools", "open") is None:
        page.click("#tools summary")
    page.get_by_label("Show a line between same and different").check()


def notice(page):
    return page.locator("#notice")
