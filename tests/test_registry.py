"""The registry: names given once, nearest names, options read from signatures, three packages filled."""

from __future__ import annotations

import pytest

from similis.objective.losses.triplet import triplet
from similis.registry import (
    Cost,
    Entry,
    LossEntry,
    Registry,
    keyword_defaults,
    losses,
    miners,
    register_loss,
    register_miner,
    register_regulariser,
    regularisers,
    unknown,
)
from similis.values import UserError


def entry(name, module="here"):
    def function(x, *, a=1, b="two", c, references=None, tuples=None, generator=None):
        """First line.

        Second paragraph.
        """

    function.__module__ = module
    return Entry(name=name, function=function, paper="none")


@pytest.fixture
def registry():
    made = Registry("thing", "similis.objective.losses")
    made._filled = True
    made.add(entry("beta"))
    made.add(entry("alpha"))
    return made


def test_entries_come_in_the_order_of_their_names(registry):
    assert [e.name for e in registry] == ["alpha", "beta"]
    assert "alpha" in registry
    assert "gamma" not in registry
    assert registry.get("beta").name == "beta"


def test_an_unknown_name_is_answered_with_the_nearest(registry):
    with pytest.raises(UserError, match=r"unknown thing 'alhpa'; did you mean 'alpha'\? \(known: alpha, beta\)"):
        registry.get("alhpa")
    assert unknown("thing", "zzz", []) == "unknown thing 'zzz' (known: none)"


def test_a_name_belongs_to_one_module(registry):
    with pytest.raises(UserError, match="registered by here and again by elsewhere"):
        registry.add(entry("alpha", "elsewhere"))
    again = entry("alpha")
    registry.add(again)  # the same file imported twice
    assert registry.get("alpha") is again


def test_options_are_the_keyword_arguments_with_plain_defaults():
    made = entry("alpha")
    assert made.options == {"a": 1, "b": "two"}
    assert made.summary == "First line."
    assert keyword_defaults(triplet)["geometry"] == "cosine"


def test_options_of_a_loss_include_those_of_what_it_learns():
    def starts(size, *, centres=3):
        return None

    def formula(x, labels, *, weights=None, scale=2.0):
        """Nothing."""

    made = LossEntry(
        name="formula", function=formula, paper="", family="proxy", geometry="", input="unit", cost=Cost("", ""),
        network="", weight="", learns={"weights": starts},
    )  # fmt: skip
    assert made.options == {"scale": 2.0, "centres": 3}


def test_decorators_register_under_the_functions_name():
    @register_miner(returns="pairs", paper="none")
    def test_only_miner(similarity, positive, negative):
        """Finds nothing."""

    @register_regulariser(paper="none", cost=Cost("1", "1"))
    def test_only_term(x, labels):
        """Adds nothing."""

    @register_loss(
        family="pair", geometry="none", input="raw", cost=Cost("1", "1"), paper="none", network="none", weight="none"
    )
    def test_only_loss(x, labels):
        """Is nothing."""

    try:
        assert miners.get("test_only_miner").returns == "pairs"
        assert regularisers.get("test_only_term").cost == Cost("1", "1")
        assert losses.get("test_only_loss").forms == {"default": {}}
        assert losses.get("test_only_loss").function is test_only_loss
    finally:
        for registry in (miners, regularisers, losses):
            for name in [n for n in registry._entries if n.startswith("test_only_")]:
                del registry._entries[name]


def test_the_package_offers_functions_not_files():
    from similis.objective import losses as package

    assert package.triplet is triplet
