"""The registry: names given once, nearest names, options read from signatures, plug-ins, three packages."""

import importlib
import sys
from dataclasses import replace

import pytest

from similis.introspection import keyword_defaults
from similis.objective.losses.triplet import triplet
from similis.registry import Entry, Registry, losses, unknown
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
    def formula(x, labels, *, weights=None, scale=2.0):
        """Nothing."""

    made = replace(losses.get("triplet"), function=formula, learns={"weights": lambda size, *, centres=3: None})
    assert made.options == {"scale": 2.0, "centres": 3}


REGISTERS = """
from similis.registry import Entry
from test_only_things import things

def {name}(x):
    "A thing."

things.add(Entry(name="{name}", function={name}, paper="none"))
{then}
"""
FAILURES = {
    "a missing module": ("import test_only_nowhere", "ModuleNotFoundError: No module named 'test_only_nowhere'"),
    "an error": ("1 / 0", "ZeroDivisionError: division by zero"),
    "an exit": ("raise SystemExit(3)", "SystemExit: 3"),
    "several lines": ("raise ValueError('one\\ntwo')", "ValueError: one two"),
    "no Python": ("def", "SyntaxError: "),
}


@pytest.fixture
def things(tmp_path, monkeypatch):
    """A registry over a package of one good file, and a place for plug-ins of an installed distribution."""
    package = tmp_path / "test_only_things"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from similis.registry import Registry\nthings = Registry('thing', 'test_only_things')\n"
    )
    (package / "own.py").write_text(REGISTERS.format(name="own", then=""))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("test_only_")]:
        del sys.modules[name]


def install(place, points: dict[str, str]) -> None:
    """The files that pip leaves of a distribution with these entry points."""
    info = place / "somebody-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody\nVersion: 1.0\n")
    lines = [f"{name} = {module}\n" for name, module in points.items()]
    (info / "entry_points.txt").write_text("[similis.test_only_things]\n" + "".join(lines))
    importlib.invalidate_caches()


@pytest.mark.parametrize("where", ["entry point", "file"])
@pytest.mark.parametrize(("then", "reason"), FAILURES.values(), ids=FAILURES)
def test_a_broken_plug_in_is_reported_once_and_all_else_goes_on(then, reason, where, things, caplog):
    file = things / ("test_only_broken.py" if where == "entry point" else "test_only_things/broken.py")
    file.write_text(REGISTERS.format(name="half", then=then))
    (things / "test_only_good.py").write_text(REGISTERS.format(name="good", then=""))
    install(things, {"good": "test_only_good"} | ({"bad": "test_only_broken"} if where == "entry point" else {}))
    registry = importlib.import_module("test_only_things").things
    assert [entry.name for entry in registry] == ["good", "own"]  # what it had registered before is gone too
    name = "bad (test_only_broken)" if where == "entry point" else "broken (test_only_things.broken)"
    (record,) = caplog.records
    assert record.getMessage().startswith(f"the plug-in {name} cannot be imported: {reason}")
    assert "\n" not in record.getMessage()
    assert "half" not in registry
    with pytest.raises(UserError) as missing:
        registry.get("half")
    assert "unknown thing 'half'" in str(missing.value)
    assert f"(known: good, own); the plug-in {name} cannot be imported: {reason}" in str(missing.value)
    assert len(caplog.records) == 1


def test_a_plug_in_that_takes_a_given_name_is_left_out(things, caplog):
    (things / "test_only_again.py").write_text(REGISTERS.format(name="own", then=""))
    install(things, {"again": "test_only_again"})
    registry = importlib.import_module("test_only_things").things
    assert registry.get("own").function.__module__ == "test_only_things.own"
    assert "registered by test_only_things.own and again by test_only_again" in caplog.text


def test_the_package_offers_functions_not_files():
    from similis.objective import losses as package

    assert package.triplet is triplet
