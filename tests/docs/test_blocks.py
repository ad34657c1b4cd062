"""What README and site show is run: Python blocks in order, and every ``similis`` line of shell blocks."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import similis
from similis.data.manifest import Manifest
from tests.cli.test_main import ended
from tests.docs.blocks import ROOT, SHELL, blocks, commands, pages

PAGES = [page for page in pages() if blocks(page.read_text(encoding="utf-8"))]
SMALL = ["--backbone", "small_conv", "--weights", "none", "--size", "24", "--epochs", "1"]  # seconds, no download


@pytest.fixture(autouse=True)
def _clean_registry(tmp_path, monkeypatch):
    """Run in an empty folder; losses and miners that a page registers as examples leave the registry afterwards."""
    from similis.registry import losses, miners

    for registry in (losses, miners):
        registry.fill()
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.setattr("similis.study.looks.LOOKS", (3,))  # repetitions of `similis compare`, instead of up to 15
    monkeypatch.setattr("similis.study.search.contestant_search.search_budget", lambda *_: 1)  # the preset
    monkeypatch.chdir(tmp_path)


def write_photos(data: Manifest, rows: Sequence[int]) -> None:
    """What a reader of README has: class folders below photos/, and two files to ask about."""
    names, paths = data.values("class_name"), data.values("path")
    for row in rows:
        file = Path("photos", names[row], Path(paths[row]).name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.read_bytes(row))
    for name, row in (("query.jpg", rows[3]), ("other.jpg", rows[0])):
        Path(name).write_bytes(data.read_bytes(row))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run(page):
    """Blocks of one page share their names, as a reader would run them; trainings on photos are made small."""
    names: dict[str, object] = {"__name__": "page"}
    if page.name == "README.md":
        write_photos(similis.open_data("synthetic?classes=16&images=8&size=32"), range(128))
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.kind == "python":
            source = "\n" * block.line + block.text  # tracebacks show the line of the page
            exec(compile(source, str(page), "exec", dont_inherit=True), names)
            continue
        for words in commands(block):
            small = [*words, *SMALL] if words[:2] == ["train", "photos/"] else words
            assert ended(small) == 0, f"{page.name}:{block.line}: similis {' '.join(words)}"


PUBLIC = {"similis", "similis.losses", "similis.formula", "similis.sklearn"}


def internal_names(text: str) -> list[str]:
    """What a block imports or reaches of this package beside its public names."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names if each.name.startswith("similis") and each.name not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("similis"):
            names = [each.name for each in node.names if node.module == "similis" and each.name not in similis.__all__]
            found += names if node.module in PUBLIC else [node.module]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "similis":
            found += [] if node.attr in similis.__all__ else [node.attr]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_use_public_names_only(page):
    python = [block.text for block in blocks(page.read_text(encoding="utf-8")) if block.kind == "python"]
    assert [name for text in python for name in internal_names(text)] == []


def test_internal_names_are_found():
    text = "import similis.engine\nfrom similis.run import run\nfrom similis import los\nsimilis.run\nsimilis.loss"
    assert internal_names(text) == ["similis.engine", "similis.run", "los", "run"]


def test_the_site_has_blocks_of_both_kinds():
    kinds = {block.kind for page in PAGES for block in blocks(page.read_text(encoding="utf-8"))}
    assert "python" in kinds
    assert kinds & set(SHELL)


def test_blocks_are_found_and_marked_ones_left_out():
    text = (
        "```python\na\n```\n\n"
        "<!-- not run: needs photos -->\n```bash\nsimilis x\n```\n\n"
        "```console\n$ similis y \\\n  z # why\nout\n```\n"
    )
    found = blocks(text)
    assert [block.kind for block in found] == ["python", "console"]
    assert commands(found[1]) == [["y", "z"]]


@pytest.mark.photos
@pytest.mark.skipif(not os.environ.get("SIMILIS_DATA"), reason="real photos and weights are not here (SIMILIS_DATA)")
def test_the_readme_uses_a_model_on_real_photos(tmp_path):
    """The lines of README about the model object, on some photos of groceries and a real network."""
    grocery = similis.open_data("grocery", allow_counts=True)
    names = grocery.values("class_name")
    kinds = list(dict.fromkeys(names))[:6]
    write_photos(grocery, [row for kind in kinds for row in [r for r, name in enumerate(names) if name == kind][:6]])
    unseen = [row for row, name in enumerate(names) if name == kinds[2]][7]
    Path("query.jpg").write_bytes(grocery.read_bytes(unseen))
    weights = str(Path(os.environ["SIMILIS_DATA"], "weights", "tf_efficientnet_lite0_imagenet.safetensors"))
    network = {"weights": weights, "dim": None, "image_size": 96}
    similis.train({"data": {"source": "photos/"}, "model": network, "training": {"epochs": 0}}, device="cpu")
    (text,) = (b.text for b in blocks((ROOT / "README.md").read_text(encoding="utf-8")) if "similis.load(" in b.text)
    known: dict[str, object] = {}
    exec(compile(text, "README.md", "exec", dont_inherit=True), known)
    model = known["model"]
    assert isinstance(model, similis.Model)
    assert model.search("query.jpg", 1, copies=False)[0].label == kinds[2]
    assert model.classify("query.jpg", k=1).label == "brand new"
    assert (tmp_path / "why.png").exists()
    assert similis.load("my-model", device="cpu").dim == 1280
