"""Every example of every docstring runs and prints what it shows."""

import doctest
import importlib
import pkgutil

import pytest

import similis
from similis.values import MissingExtraError


def modules() -> list[str]:
    """Names of all modules of the package."""
    found = pkgutil.walk_packages(similis.__path__, "similis.", onerror=lambda name: None)
    return ["similis", *(module.name for module in found if not module.name.endswith("__main__"))]


@pytest.mark.parametrize("name", modules())
def test_examples(name):
    try:
        module = importlib.import_module(name)
    except MissingExtraError as missing:
        pytest.skip(str(missing))
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_every_loss_and_miner_shows_an_example():
    from similis.registry import losses, miners

    without = [e.name for kind in (losses, miners) for e in kind if ">>>" not in (e.function.__doc__ or "")]
    assert without == []
