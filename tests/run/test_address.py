"""The address of a run: what changes its numbers changes it, and nothing else does."""

import importlib
import sys
from pathlib import Path

import pytest

from similis.registry import losses, miners
from similis.run import address as addresses
from similis.run.address import address
from similis.run.source import essence, source_hash
from tests.run.small import ran, remains, small

LOSS = '''"""A loss of somebody else."""

from similis.registry import Cost, register_loss
from {helper} import weight


@register_loss(
    family="pair", geometry="cosine", input="unit", cost=Cost("B^2 D", "B^2"), paper="none", network="none", weight="S"
)
def plugged(embeddings, labels, *, scale=1.0):
    """Pull together what belongs together."""
    alike = embeddings @ embeddings.T
    same = labels[:, None] == labels[None]
    # a remark
    return scale * (alike * weight(same)).mean()
'''
HELPER = """def weight(same):
    return 1.0 - 2.0 * same
"""


class PlugIn:
    """Two modules on the path of imports, the first of which registers a loss; each test has its own names."""

    def __init__(self, folder: Path, name: str) -> None:
        self.loss, self.helper = folder / f"{name}.py", folder / f"{name}_helper.py"
        self.loss.write_text(LOSS.format(helper=self.helper.stem))
        self.helper.write_text(HELPER)
        importlib.import_module(name)

    def edit(self, file: Path, old: str, new: str) -> None:
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def reload(self) -> None:
        """What a new process would import."""
        for file in (self.helper, self.loss):
            importlib.reload(sys.modules[file.stem])


@pytest.fixture
def plug_in(tmp_path, monkeypatch, request):
    losses.fill()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    made = PlugIn(tmp_path, f"plug_in_{abs(hash(request.node.name))}")
    yield made
    del losses._entries["plugged"]
    for file in (made.loss, made.helper):
        del sys.modules[file.stem]


def place(**changes) -> str:
    return address(small(**{"objective__loss": "plugged", **changes}), "data", "files")


def test_a_comment_a_docstring_and_the_layout_change_nothing(plug_in):
    before = place()
    for old, new in [
        ("a remark", "another remark"),
        ("Pull together what", "Pull together all that"),
        ("A loss of", "The loss of"),
        ("    alike = embeddings @ embeddings.T\n", "    alike = (\n        embeddings @ embeddings.T\n    )\n\n"),
    ]:
        plug_in.edit(plug_in.loss, old, new)
    plug_in.edit(plug_in.helper, "def weight", "# twice\ndef weight")
    plug_in.reload()
    assert place() == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("loss", "return scale *", "return -scale *"), ("loss", "scale=1.0", "scale=2.0"),
     ("helper", "1.0 - 2.0", "1.0 - 3.0")],  # a sign, a default, a function that it imports
)  # fmt: skip
def test_a_changed_formula_has_another_address(file, old, new, plug_in):
    before, others = place(), place(objective__loss="triplet")
    plug_in.edit(getattr(plug_in, file), old, new)
    plug_in.reload()
    assert place() != before
    assert place(objective__loss="triplet") == others


def test_the_result_of_an_edited_formula_is_computed_anew(plug_in, tmp_path):
    spec = {"objective__loss": "plugged", "training__epochs": 1}
    first = ran(tmp_path / "runs", **spec)
    plug_in.edit(plug_in.loss, "return scale *", "return -scale *")
    assert ran(tmp_path / "runs", **spec).folder == first.folder, "until it is imported, the old formula computes"
    plug_in.reload()
    second = ran(tmp_path / "runs", **spec)
    assert second.address != first.address
    assert remains(second.folder)["model.safetensors"] != remains(first.folder)["model.safetensors"]
    plug_in.edit(plug_in.loss, "return -scale *", "return scale *")
    plug_in.reload()
    assert ran(tmp_path / "runs", **spec).folder == first.folder


def test_a_loss_added_to_the_tree_changes_nothing_for_the_others(tmp_path, monkeypatch):
    """A new file beside those of the losses, imported as they are."""
    package = importlib.import_module(losses.package)
    losses.fill()
    before = {entry.name: source_hash(losses, entry.name) for entry in losses}
    runs = [place(objective__loss=name) for name in ("triplet", "proxy_anchor")]
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    (tmp_path / "added_here.py").write_text(LOSS.format(helper="similis.objective.losses.triplet").replace(
        "import weight", "import triplet"))  # fmt: skip
    importlib.import_module(f"{losses.package}.added_here")
    try:
        assert {name: source_hash(losses, name) for name in before} == before
        assert [place(objective__loss=name) for name in ("triplet", "proxy_anchor")] == runs
        assert source_hash(losses, "plugged")
    finally:
        del losses._entries["plugged"], sys.modules[f"{losses.package}.added_here"]


def test_a_raised_version_of_the_numbers_changes_every_address(monkeypatch):
    before = place(objective__loss="triplet")
    monkeypatch.setattr(addresses, "NUMERICS", addresses.NUMERICS + 1)
    assert place(objective__loss="triplet") != before


def test_specification_data_files_and_every_part_with_a_source_are_in_the_address():
    mined = {"objective__loss": "triplet", "objective__miner": "batch_hard"}
    spec = small(**mined)
    places = {
        address(spec, "data", "files"),
        address(spec, "other data", "files"),
        address(spec, "data", "other files"),
        address(small(**mined, seed=1), "data", "files"),
        address(small(**mined, evaluation__ks=[1]), "data", "files"),
    }
    assert len(places) == 5
    assert addresses.source_fingerprints(spec).keys() == {"loss", "miner", "sampler", "backbone"}
    assert addresses.source_fingerprints(spec)["miner"] == source_hash(miners, "batch_hard")
    presets = [(entry, preset) for entry in losses for preset in entry.presets.items() if preset[1].miner]
    entry, (name, preset) = presets[0]
    preset_of = addresses.source_fingerprints(small(objective__loss=entry.name, objective__preset=name))
    assert preset_of["miner"] == source_hash(miners, preset.miner)


def test_a_network_of_timm_is_in_the_address_by_the_file_that_builds_it():
    one, other = (addresses.source_of_backbone(name) for name in ("resnet18", "small_conv"))
    assert one != other
    assert addresses.source_of_backbone("resnet50") == one


def test_what_a_function_without_a_file_computes_is_in_its_hash():
    """Written in a prompt, say: its byte code counts."""

    def hash_of(text: str) -> str:
        scope: dict[str, object] = {"__name__": "typed_in"}
        source = LOSS.format(helper="math").replace("import weight", "import sqrt as weight")
        exec(source.replace("scale *", text), scope)
        try:
            return source_hash(losses, "plugged")
        finally:
            del losses._entries["plugged"]

    losses.fill()
    assert hash_of("scale *") == hash_of("scale *")
    assert hash_of("scale *") != hash_of("-scale *")


def test_the_essence_of_a_source_is_what_is_executed():
    assert essence("x = 1  # one\n\n\ny = 2") == essence("x = 1\ny = (2)")
    assert essence("class A:\n    'only words'") == essence("class A:\n    pass")
    assert essence("import a.b\nfrom c import d\nx = d(1)") == essence("from e.f import d\nx = d(1)")
    assert essence("from a import b as f") != essence("from a import c as f"), "nothing else says what f is"
    assert essence("if TYPE_CHECKING:\n    import a\nx = 1") == essence("x = 1")
    assert essence("@register(paper='A')\ndef f(x): ...") == essence("@register(paper='B')\ndef f(x): ...")
    assert essence("@register(scale=1)\ndef f(x): ...") != essence("@register(scale=2)\ndef f(x): ...")
    assert essence("x = 'a text'") != essence("x = 'another'")
    assert essence("this is no Python") == "this is no Python"
