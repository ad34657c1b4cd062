"""The table of dependencies is that of pyproject.toml, and nothing that is required is under the GPL."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: list(map(Requirement, given)) for name, given in PROJECT["optional-dependencies"].items()}
REQUIRED = {"always": list(map(Requirement, PROJECT["dependencies"])), **EXTRAS}
del REQUIRED["all"], REQUIRED["dev"]
GPL = re.compile(r"\b(A|L)?GPL|General Public License", re.IGNORECASE)


def required_by(wanted: Requirement, found: dict[str, str]) -> dict[str, str]:
    """Every package that a requirement brings, with what its metadata say of its licence."""
    name = re.sub(r"[-_.]+", "-", wanted.name).lower()
    try:
        held = distribution(name)
    except PackageNotFoundError:  # of another system
        return found
    if name not in found:
        stated = [held.metadata.get("License-Expression") or held.metadata.get("License") or ""]
        stated += [each for each in held.metadata.get_all("Classifier") or () if each.startswith("License")]
        found[name] = " ".join(each.splitlines()[0] for each in stated if each)
        for each in map(Requirement, held.requires or ()):
            if each.marker is None or any(each.marker.evaluate({"extra": e}) for e in ("", *wanted.extras)):
                required_by(each, found)
    return found


def test_nothing_required_is_under_the_gpl():
    found: dict[str, str] = {}
    for wanted in (each for listed in REQUIRED.values() for each in listed):
        required_by(wanted, found)
    assert len(found) > 60
    assert {name: words for name, words in found.items() if GPL.search(words)} == {}
    assert {name for name, words in found.items() if not words} == set()


def test_the_gpl_would_be_seen():
    words = ("GPL-3.0-or-later", "License :: OSI Approved :: GNU General Public License v2 (GPLv2)", "LGPL-2.1")
    assert all(map(GPL.search, words))
    assert not GPL.search("MPL-2.0 AND MIT")


@pytest.mark.parametrize("extra", REQUIRED)
def test_the_table_names_what_pyproject_requires(extra):
    rows = [
        line.split("|") for line in (ROOT / "docs/dependencies.md").read_text().splitlines() if line.startswith("| ")
    ]
    listed = {row[1].strip() for row in rows if extra in re.split(r",\s*", row[5].strip())}
    assert listed == {each.name for each in REQUIRED[extra]}
