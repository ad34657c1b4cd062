"""A stand-in for the Hub, a client of it, a bundle and a run."""

import pytest

from tests.data.pictures import picture, write
from tests.model.hub.client import client, new_model
from tests.model.hub.server import Hub
from tests.run.small import ran


@pytest.fixture(scope="package")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("hub")


@pytest.fixture(scope="package")
def server():
    with Hub() as hub:
        yield hub
        hub.shutdown()


@pytest.fixture(scope="package")
def online(server, cache):
    with client(server.address, cache) as call:
        yield call


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = new_model().save(tmp_path_factory.mktemp("bundle") / "b")
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("run")
    write(root / "photos", {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(14) for n in range(6)})
    return ran(root / "runs", data__source=str(root / "photos"), training__batch_size=4, training__epochs=1)
