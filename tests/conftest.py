"""The tests keep nothing outside their own folders."""

import os

import pytest

from similis.data.content import VARIABLE


@pytest.fixture(autouse=True, scope="session")
def cache_folder(tmp_path_factory):
    """Hashes of images go to a folder of this session; processes that tests start inherit it."""
    os.environ[VARIABLE] = str(tmp_path_factory.mktemp("cache"))
