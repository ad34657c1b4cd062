"""A client of the Hub in a process of its own, a stand-in that it talks to, and models to send."""

from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context

import pytest

import similis
from similis.model import hub as on_the_hub
from similis.model.bundle_files import CHECKSUMS, write_checksums
from similis.model.load import ModelChoice
from tests.data.pictures import picture

IMAGES = [picture(number) for number in range(3)]


def new_model():
    model = similis.pretrained("small_conv", weights=None, size=16, device="cpu")
    model.add(IMAGES, labels=["a", "b", "c"], ids=["1", "2", "3"])
    return model


def push(repository, run=None, **options):
    model = new_model() if run is None else similis.load(run, device="cpu")
    return model.push(repository, **options)


def embed(address, most=5 * 10**9):
    """Embeddings of a model on the Hub, and the number of images in its gallery."""
    on_the_hub.MOST_BYTES = most
    model = ModelChoice(address, device="cpu").open()
    return model.encode(IMAGES), len(model.gallery)


@contextmanager
def client(address, cache, **variables):
    """Calls functions in a process of its own, because the client reads its environment when it is imported."""
    own = {"HF_ENDPOINT": address, "HF_HOME": str(cache), "HF_TOKEN": "hf_test", "HF_HUB_DISABLE_XET": "1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (own | {"NO_PROXY": "127.0.0.1", "HF_HUB_OFFLINE": "0"} | variables).items():
            patch.setenv(name, value)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            yield lambda function, *given, **options: pool.submit(partial(function, *given, **options)).result()


def last(server, name):
    """The files of the last commit."""
    return list(server.repositories[name].commits.values())[-1]


def checked(files, place):
    """The files with checksums that fit them."""
    for name, data in files.items():
        (place / name).write_bytes(data)
    write_checksums(place)
    return {**files, CHECKSUMS: (place / CHECKSUMS).read_bytes()}
