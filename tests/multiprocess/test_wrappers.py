"""Miners, memory, nested sizes, language guidance and relations, in several processes."""

from __future__ import annotations

from typing import Any

import pytest

from similis.registry import losses, miners
from tests.multiprocess.agreement import assert_equal
from tests.multiprocess.work import EVEN, UNEVEN
from tests.proof import SHAPES

FORM = {entry.name: next(iter(entry.forms)) for entry in losses}


def shaped(name: str) -> Any:
    """A loss as a parameter, slow where another one has its shape."""
    return pytest.param(name, marks=() if name in {each for each, _ in SHAPES} else pytest.mark.slow)


def of(name: str, **more: object) -> dict:
    return {"objective": {"name": name, "form": FORM[name], **more}}


@pytest.mark.parametrize("miner", [m.name for m in miners])
def test_every_miner(two, miner):
    mines_alike(two, miner)


@pytest.mark.parametrize("miner", [m.name for m in miners])
def test_every_miner_on_four(four, miner):
    mines_alike(four, miner)


def mines_alike(ranks, miner: str) -> None:
    name = "triplet" if miners.get(miner).returns == "triplets" else "contrastive"
    work = [(of(name, miner=miner), counts[ranks.number]) for counts in (EVEN, UNEVEN)]
    assert_equal(ranks, work, steps=2)  # two steps: a miner's draws go on


@pytest.mark.parametrize("miner", ["distance_weighted", "random", "disjoint"])
def test_margin_with_draws(two, miner):
    assert_equal(two, [(of("margin", miner=miner), UNEVEN[2])], steps=2)


@pytest.mark.parametrize("name", [shaped(entry.name) for entry in losses if entry.memory])
def test_memory(two, name):
    form = "all" if name == "npair" else "thesis" if name == "lifted" else FORM[name]
    case = {"objective": {"name": name, "form": form, "kind": "memory"}}
    assert_equal(two, [(case, counts) for counts in (EVEN[2], UNEVEN[2])], steps=3)


def test_memory_with_a_miner(two):
    assert_equal(two, [(of("triplet", kind="memory", miner="semi_hard"), UNEVEN[2])], steps=3)


def test_nested_sizes(two):
    work = [(of(e.name, kind="nested"), UNEVEN[2]) for e in losses]
    assert_equal(two, [*work, (of("triplet", kind="nested", miner="distance_weighted"), UNEVEN[2])])


def test_language_guidance(two):
    assert_equal(two, [(of(n, kind="language"), UNEVEN[2]) for n in ("multi_similarity", "proxy_anchor", "arcface")])


@pytest.mark.parametrize("name", [shaped(entry.name) for entry in losses if entry.relation != "none"])
def test_relations(two, name):
    forms = list(losses.get(name).forms)
    work = [({"objective": {"name": name, "form": form}, "relation": True}, UNEVEN[2]) for form in forms]
    assert_equal(two, work)
