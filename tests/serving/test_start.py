"""How a server starts: what it says to programs, what it refuses, and what it tells of an older collection."""

import json
import shutil
import signal
import subprocess
import sys

import pytest
import requests

from similis.model.load import load
from similis.serving.collection import Collection
from similis.serving.limits import Limits
from similis.serving.metrics import Metrics
from similis.values import UserError
from tests.serving.running import DEADLINE, PHOTOS, photo


def opened(folder):
    return Collection(folder, folder / "collection.sqlite", Limits(), Metrics())


def test_json_is_one_line_with_the_address_once_it_answers(folder):
    words = [sys.executable, "-c", "from similis.cli import main; main()"]
    words += ["serve", str(folder), "--port", "0", "--json", "--read-only"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            said = json.loads(process.stdout.readline())
            address, _, key = said["address"].partition("#key=")
            assert requests.get(f"{address}ready", timeout=DEADLINE).json()["status"] == "ready"
            assert len(key) > 20
            assert not requests.get(f"{address}v1/model", timeout=DEADLINE).json()["writable"]
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == ""
    assert said["bundle"] == str(folder)


def test_a_run_is_refused_with_the_words_that_export_it(tmp_path):
    with pytest.raises(UserError, match=r"similis export .*, then similis serve bundle"):
        opened(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_older_collection_of_a_bundle_that_was_exported_again_is_told(folder, caplog):
    collection = opened(folder)
    collection.close()
    opened(folder).close()
    assert caplog.messages == []
    store = shutil.move(folder / "collection.sqlite", folder.with_name("kept.sqlite"))
    model = load(folder)
    model.add([photo(700)], labels=["later"], ids=["later"])
    model.save(folder)
    shutil.move(store, folder / "collection.sqlite")
    collection = opened(folder)
    held = len(collection.model.gallery)
    collection.close()
    (said,) = caplog.messages
    assert held == len(PHOTOS)
    assert f"holds {held} items" in said
    assert f"with {held + 1}" in said
