"""``similis train`` opens the data once, builds a network once for each use, and parses the specification once."""

from collections import Counter

import pytest

from similis.data import open_data
from similis.data.manifest import Manifest
from similis.networks.embedder import Embedder
from similis.run.distributed import run_on_ranks
from similis.run.machine import Machine
from similis.run.spec import RunSpec
from tests.cli.test_main import ended
from tests.cli.test_train import SMALL, photos  # noqa: F401 - a fixture
from tests.run.small import small


@pytest.fixture
def counts(monkeypatch, tmp_path):
    """How often data are listed and hashed, networks are built and specifications parsed; nothing is cached yet."""
    monkeypatch.setenv("SIMILIS_CACHE", str(tmp_path / "cache"))
    found = Counter()

    def count(owner, name, what):
        function = getattr(owner, name)

        def counted(*given, **named):
            found[what] += 1
            return function(*given, **named)

        monkeypatch.setattr(owner, name, counted)

    count(open_data, "is_utf8", "listed")
    count(Manifest, "with_content", "hashed")
    count(Embedder, "__init__", "built")
    count(RunSpec, "__init__", "parsed")
    return found


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(SMALL, id="another resolution than the network's own"),
        pytest.param(["--backbone", "small_conv", "--dim", "8", "--epochs", "1"], id="a resolution that fits"),
        pytest.param(["--backbone", "test_efficientnet", "--weights", "none", "--epochs", "1"], id="timm"),
    ],
)
def test_one_command_opens_builds_and_parses_once(words, photos, counts):  # noqa: F811
    assert ended(["train", photos, *words]) == 0
    assert counts == {"listed": 1, "hashed": 1, "built": 2, "parsed": 1}  # the second network: before training
    counts.clear()
    assert ended(["train", photos, *words]) == 0
    assert counts == {"listed": 1, "hashed": 1, "parsed": 1}


def test_a_stored_result_is_printed_without_a_network_where_the_resolution_was_fitted(photos, counts, monkeypatch):  # noqa: F811
    """On a slow machine the resolution follows from the network, whose cost is known from the first call."""
    monkeypatch.setattr("similis.run.fitted_settings.CORE_BYTES", 2**20)
    words = ["--backbone", "test_vit", "--weights", "none", "--epochs", "1"]
    assert ended(["train", photos, *words]) == 0
    counts.clear()
    assert ended(["train", photos, *words]) == 0
    assert counts == {"listed": 1, "hashed": 1, "parsed": 1}


def test_a_run_in_python_opens_and_builds_once(counts, tmp_path):
    spec = small()
    counts.clear()
    run_on_ranks(spec, Machine(root=tmp_path), ranks=1)
    assert counts == {"listed": 1, "hashed": 1, "built": 2}
