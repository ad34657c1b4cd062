"""Class vectors divided over processes: the loss and its gradients; ``test_training`` goes on from checkpoints."""

from __future__ import annotations

import pytest

from similis.registry import losses
from tests.multiprocess.agreement import assert_equal

BY_CLASS = [entry.name for entry in losses if entry.family in ("proxy", "classification")]


def cases(name: str, **more: object) -> list[dict]:
    entry = losses.get(name)
    kinds = ["plain", "nested", *(["memory"] if entry.memory else [])]
    objectives = [{"name": name, "form": form, "kind": kind} for form in entry.forms for kind in kinds]
    return [{"objective": each, "divided": True, **more} for each in objectives]


# Classes as rows, as columns, several proxies of a class, proxies compared with proxies; the others are long proofs.
FAST = ("proxy_anchor", "normface", "soft_triple", "proxy_gml", "proxy_repulsion")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in BY_CLASS]
)
def test_as_undivided(two, name):
    assert_equal(two, [(case, (7, 5)) for case in cases(name)], steps=2)


@pytest.mark.parametrize("name", BY_CLASS)
def test_on_three_and_four(three, four, name):
    assert_equal(three, [(case, (5, 1, 6)) for case in cases(name)], steps=2)
    assert_equal(four, [(case, (5, 1, 4, 2)) for case in cases(name)], steps=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_CLASS)
def test_in_tiles(two, name):
    assert_equal(two, [(case, (7, 5)) for case in cases(name, tile=(3, 2))])


def test_several_classes_for_a_sample(two):
    assert_equal(two, [(case, (7, 5)) for case in cases("proxy_anchor", relation=True)])
