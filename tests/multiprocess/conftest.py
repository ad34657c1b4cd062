"""The pools of processes, started once for the session and used by every test here.

A failed call ends its pool, so that nobody waits for ever; the next test gets a new one.
"""

from __future__ import annotations

import pytest

from tests.multiprocess.pool import Pool


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    """More than two ranks are a tier of the long proofs."""
    for item in items:
        if {"three", "four"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def pools():
    kept = {number: Pool(number) for number in (2, 3, 4)}
    yield kept
    for ranks in kept.values():
        ranks.close()


def running(ranks: Pool) -> Pool:
    return ranks if ranks.processes else ranks.start()


@pytest.fixture
def two(pools):
    return running(pools[2])


@pytest.fixture
def three(pools):
    return running(pools[3])


@pytest.fixture
def four(pools):
    return running(pools[4])
