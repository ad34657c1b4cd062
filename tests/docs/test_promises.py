"""What packaging and pages promise exists: extras serve code, layers and the architecture page name packages."""

import re
import tomllib

import pytest

from similis import __version__
from tests.cli.test_main import ended
from tests.data.pictures import picture, write
from tests.docs.blocks import ROOT, pages

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
CODE = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
MODULES = {"pillow": "PIL", "scikit-learn": "sklearn", "faiss-cpu": "faiss"}


def packages() -> set[str]:
    """The top-level modules and packages of similis that hold code."""
    here = ROOT / "src" / "similis"
    return {path.name for path in here.iterdir() if list(path.glob("*.py"))} | {path.stem for path in here.glob("*.py")}


def imported(requirement: str) -> bool:
    """Whether some module of the package names a requirement's module."""
    name = re.match(r"[\w-]+", requirement)[0]
    module = MODULES.get(name, name.replace("-", "_"))
    return any(re.search(rf"(import|from) ([\w.]+\.)?{module}\b|['\"]{module}[.'\"]", text) for text in CODE.values())


@pytest.mark.parametrize("extra", [name for name in EXTRAS if name not in ("all", "dev")])
def test_an_extra_brings_what_code_imports(extra):
    assert any(map(imported, EXTRAS[extra])), f"no module of the package imports anything of similis[{extra}]"


def test_all_brings_every_extra_and_nothing_else():
    (everything,) = EXTRAS["all"]
    assert set(re.search(r"\[(.*)\]", everything)[1].split(",")) == set(EXTRAS) - {"all", "dev"}


def test_the_citation_has_the_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", text, re.M)[1] == __version__


def test_layers_name_packages():
    (contract,) = (c for c in PROJECT["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    named = {name.strip(" ()") for layer in contract["layers"] for name in layer.split("|")}
    assert named == packages() - {"__init__"}


def test_the_architecture_page_names_packages():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \| ([^|]*) \|", page, re.M)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == packages() - {"__init__"}


def test_pages_name_extras_that_exist():
    named = {
        extra
        for page in pages()
        for group in re.findall(r"'\.\[([\w,]+)\]'", page.read_text(encoding="utf-8"))
        for extra in group.split(",")
    }
    assert named
    assert named <= set(EXTRAS)


@pytest.mark.parametrize(("classes", "each", "code"), [(4, 2, 0), (3, 4, 1), (4, 1, 1)])
@pytest.mark.parametrize("source", ["few", "few.csv"])
def test_the_fewest_photos_that_the_tutorial_names_are_accepted(source, classes, each, code, tmp_path, monkeypatch):
    page = (ROOT / "docs" / "tutorials" / "photos-to-search.md").read_text(encoding="utf-8")
    assert "accepts four classes with two photos each" in page
    files = {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(classes) for n in range(each)}
    write(tmp_path / "few", files)
    rows = [f"few/{file},{file.partition('/')[0]}" for file in files]
    (tmp_path / "few.csv").write_text("\n".join([re.search(r"^path,label$", page, re.M)[0], *rows]))
    monkeypatch.chdir(tmp_path)
    small = "--backbone small_conv --size 16 --dim 8 --epochs 1 --no-pictures"
    assert ended(["train", source, *small.split()]) == code
