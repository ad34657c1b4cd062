"""Browser, folder, server and page for the tests of the page."""

from __future__ import annotations

import pytest

from tests.serving.browser import browsing, serving, visiting
from tests.serving.drawn_photos import save_collection


@pytest.fixture(scope="module")
def browser():
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def page_folder(tmp_path_factory):
    return save_collection(tmp_path_factory.mktemp("collection") / "model")


@pytest.fixture(scope="module")
def page_address(page_folder):
    """A server that all tests share; what they add they take out again."""
    with serving(page_folder) as found:
        yield found


@pytest.fixture
def page(browser, page_address):
    with visiting(browser, page_address) as found:
        yield found
