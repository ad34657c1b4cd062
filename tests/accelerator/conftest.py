"""The device of these tests: the emulated one, or with ``--device cuda`` a real one.

The emulated device must be known before the first backward pass of a process, and every test after it would see an
accelerator. So it has a process of its own: ``pytest tests/accelerator``. Elsewhere these tests skip.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.accelerator import emulator

FOLDER = Path(__file__).parent


def pytest_addoption(parser):
    parser.addoption("--device", default=emulator.NAME, help="of tests/accelerator, for example cuda")


def is_alone(config):
    paths = [Path(config.invocation_params.dir, arg.partition("::")[0]).resolve() for arg in config.args]
    return all(path == FOLDER or FOLDER in path.parents for path in paths)


@pytest.fixture(scope="session")
def device(request):
    name = request.config.getoption("--device", emulator.NAME)
    if name != emulator.NAME:
        try:
            torch.zeros(1, device=name)
        except (RuntimeError, AssertionError) as error:
            pytest.skip(f"there is no device {name} here: {error}")
        return torch.device(name)
    if not is_alone(request.config):
        pytest.skip("the emulated device wants a process of its own: pytest tests/accelerator")
    if (reason := emulator.why_not()) is not None:
        pytest.skip(reason)
    emulator.load()
    return torch.device(name)


@pytest.fixture
def count(device):
    """Counts what is asked of the device; a real one does not count."""
    if device.type != emulator.NAME:
        pytest.skip("only the emulated device counts launches and waits")
    from tests.accelerator.emulator.counting import count

    return count
