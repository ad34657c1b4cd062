"""The pools of processes, started once for the session and used by every test here."""

from __future__ import annotations

import pytest

from similis.engine.ranks import Ranks


@pytest.fixture(scope="session")
def two():
    with Ranks(2, timeout=120) as ranks:
        yield ranks


@pytest.fixture(scope="session")
def three():
    with Ranks(3, timeout=120) as ranks:
        yield ranks


@pytest.fixture(scope="session")
def four():
    with Ranks(4, timeout=120) as ranks:
        yield ranks
