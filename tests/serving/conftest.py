"""A saved model of two dozen images; for the page another one, a server and a browser."""

import shutil

import pytest

from similis.model.bundle import make_thumbnail
from similis.model.load import load, pretrained
from tests.serving.browser import KEY, browsing, visiting
from tests.serving.drawn_photos import save_collection
from tests.serving.running import PHOTOS, Server


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """The folder of a model; tests copy it before they serve it."""
    model = pretrained("small_conv", weights=None, size=16)
    model.add(list(PHOTOS.values()), labels=[name.split("/")[0] for name in PHOTOS], ids=list(PHOTOS))
    pictures = {name: make_thumbnail(data) for name, data in PHOTOS.items()}
    return model.save(tmp_path_factory.mktemp("saved") / "model", thumbnails=pictures)


@pytest.fixture(scope="session")
def model(saved):
    """The same model in this process."""
    return load(saved)


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of the folder for one test."""
    return shutil.copytree(saved, tmp_path / "model")


@pytest.fixture(scope="module")
def server(saved, tmp_path_factory):
    """A server for the tests of one file, which share its collection."""
    place = shutil.copytree(saved, tmp_path_factory.mktemp("served") / "model")
    with Server(place) as running:
        yield running


@pytest.fixture(scope="package")  # not longer: while it is open, its event loop keeps others from running
def browser():
    with browsing() as found:
        yield found


@pytest.fixture(scope="package")
def page_folder(tmp_path_factory):
    return save_collection(tmp_path_factory.mktemp("collection") / "model")


@pytest.fixture(scope="package")
def page_address(page_folder):
    """A server that all tests of the page share; what they add they take out again."""
    with Server(page_folder, key=KEY) as running:
        yield running.address


@pytest.fixture
def page(browser, page_address):
    with visiting(browser, page_address) as found:
        yield found
