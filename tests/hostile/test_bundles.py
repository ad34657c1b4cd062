"""Bundles under attack: each is refused with one sentence before anything of it is used, and nothing is executed."""

import json
import os
import pickle
import resource
import shutil
import struct
from pathlib import Path

import pytest
import torch

import similis
from similis.model.bundle import read_rates, read_thumbnails
from similis.model.bundle_files import ENTRIES, FILES, GALLERY, MOST_JSON, WEIGHTS, write_checksums
from similis.model.model_folder import entries_hash
from similis.model.verification import Threshold
from similis.run.trained_on import TrainedOn
from similis.training.tensors import read_tensors, save_tensors
from similis.values import DataError
from tests.data.pictures import picture
from tests.hostile.refusals import call, check_sentence

DIM = 256


class Evil:
    """Pickled, it writes a file wherever it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return os.system, (f"touch {self.file}",)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A bundle with every file but ONNX."""
    model = similis.pretrained("small_conv", weights=None, size=16, device="cpu")
    labels = [str(n % 4) for n in range(12)]
    model.add([picture(n) for n in range(12)], labels=labels, ids=[f"{n}.png" for n in range(12)])
    model.chosen = Threshold(0.1, 0.5, 0.4, 0.6, ("0", "1", "2", "3"), "gallery", "")
    model.trained_on = TrainedOn(frozenset(["0" * 32, "f" * 32]), frozenset(["shoe"]))
    return model.save(tmp_path_factory.mktemp("bundles") / "sound", thumbnails={"3.png": b"jpeg"}, onnx=b"onnx")


@pytest.fixture
def bundle(sound, tmp_path):
    return Path(shutil.copytree(sound, tmp_path / "bundle"))


def read_all(bundle: Path) -> None:
    """What a server reads."""
    similis.load(bundle, device="cpu")
    read_thumbnails(bundle)
    read_rates(bundle)


def refusal(bundle: Path, *, signed: bool = True) -> str:
    """The sentence; checksums are those of the attacker, unless the attack is on them."""
    if signed:
        write_checksums(bundle)
    with pytest.raises(DataError) as caught:
        read_all(bundle)
    message = check_sentence(caught.value)
    assert str(bundle) in message
    assert "again" in message  # what to do
    return message


def change(bundle: Path, name: str, /, **values) -> None:
    """Other values in a JSON file."""
    file = bundle / name
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def resave(bundle: Path, name: str, **tensors) -> None:
    """Other tensors under the words that the reader expects."""
    held, described = read_tensors(bundle / name)
    save_tensors(bundle / name, {k: v for k, v in (held | tensors).items() if v is not None}, described)


def test_the_sound_bundle_loads(bundle):
    assert len(similis.load(bundle, device="cpu").gallery) == 12
    assert read_thumbnails(bundle)[3] == b"jpeg"
    assert {file.name for file in bundle.glob("[!.]*")} == set(FILES)


def test_the_attack_by_pickle_works_where_it_is_unpickled(tmp_path):
    """The proof below would prove nothing with a pickle that does nothing."""
    pickle.loads(pickle.dumps(Evil(tmp_path / "executed")))
    assert (tmp_path / "executed").exists()


@pytest.mark.parametrize("form", ["pickle", "torch"])
@pytest.mark.parametrize("name", sorted(set(FILES) - {"model.onnx", "README.md"}))
def test_a_pickle_in_place_of_a_file_is_never_unpickled(bundle, tmp_path, name, form):
    if form == "pickle":
        (bundle / name).write_bytes(pickle.dumps(Evil(tmp_path / "executed")))
    else:
        torch.save({"model/x": Evil(tmp_path / "executed")}, bundle / name)
    assert name in refusal(bundle, signed=name != "checksums.json")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("name", ["evil.pkl", "model.pth", "setup.py", "model.onnx.data", "inside"])
def test_a_file_that_is_none_of_a_bundles_is_refused(bundle, name):
    (bundle / name).mkdir() if name == "inside" else (bundle / name).write_bytes(b"x")
    assert "holds no file of this name" in refusal(bundle)


@pytest.mark.parametrize("name", sorted(FILES))
def test_links_are_refused_wherever_they_lead(bundle, tmp_path, name):
    (bundle / name).rename(tmp_path / "outside")
    (bundle / name).symlink_to(tmp_path / "outside")
    assert "symbolic link" in refusal(bundle, signed=False)


def test_a_pipe_that_never_ends_is_not_read(bundle):
    (bundle / "rates.json").unlink()
    os.mkfifo(bundle / "rates.json")
    assert "plain files" in refusal(bundle, signed=False)


@pytest.mark.parametrize("name", ["../outside.json", "/etc/passwd", "model.json/../../x", "..", ""])
def test_checksums_name_no_file_elsewhere(bundle, tmp_path, name):
    (tmp_path / "outside.json").write_text("{}")
    change(bundle, "checksums.json", **{name: "0" * 64})
    assert "is listed and not there" in refusal(bundle, signed=False)


@pytest.mark.parametrize("name", sorted(set(FILES) - {"checksums.json"}))
def test_one_changed_byte_of_any_file_is_noticed(bundle, name):
    data = bytearray((bundle / name).read_bytes())
    data[-1] ^= 1
    (bundle / name).write_bytes(data)
    assert name in refusal(bundle, signed=False)


@pytest.mark.parametrize("name", sorted(set(FILES) - {"model.json"}))  # without that it is no saved model
def test_a_missing_file_is_noticed(bundle, name):
    (bundle / name).unlink()
    assert name in refusal(bundle, signed=False)


def test_an_unlisted_file_is_noticed(bundle):
    listed = json.loads((bundle / "checksums.json").read_text())
    del listed["threshold.json"]
    (bundle / "checksums.json").write_text(json.dumps(listed))
    assert "'threshold.json' is there and not listed" in refusal(bundle, signed=False)


@pytest.mark.parametrize("version", ["similis-model-3", "similis-model-", 2, None, ["similis-model-2"]])
def test_another_version_is_refused_with_those_that_are_read(bundle, version):
    change(bundle, "model.json", format=version)
    assert "this version reads similis-model-2" in refusal(bundle)


@pytest.mark.parametrize("claims", [2**62, 2**26, 0])
@pytest.mark.parametrize("name", [WEIGHTS, GALLERY, "thumbnails.safetensors", "trained-on.safetensors"])
def test_a_header_that_claims_too_much_is_refused(bundle, name, claims):
    data = (bundle / name).read_bytes()
    (bundle / name).write_bytes(struct.pack("<Q", claims) + data[8:])
    assert name in refusal(bundle)


@pytest.mark.parametrize("name", ["model.json", "threshold.json", "rates.json", "checksums.json", ENTRIES])
def test_a_huge_json_file_is_not_read(bundle, name):
    with (bundle / name).open("r+b") as file:
        file.truncate(MOST_JSON + 2)  # sparse
    assert "are allowed" in refusal(bundle, signed=name not in ("checksums.json", "model.json"))


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "null", "{", '"model"', "\ud800"])
@pytest.mark.parametrize("name", ["model.json", ENTRIES, "threshold.json", "rates.json", "checksums.json"])
def test_what_is_no_mapping_is_refused(bundle, name, text):
    (bundle / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    assert name in refusal(bundle, signed=name != "checksums.json")


LOOK = {"size": 16, "resize": 16, "mean": [0.5] * 3, "std": [0.5] * 3, "channels": "rgb", "top": 1.0,
        "interpolation": "bilinear"}  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [
        {"network": {"backbone": "small_conv", "dim": 10**12}},
        {"network": {"backbone": "small_conv", "dim": None, "image_size": 10**9}},
        {"network": {"backbone": "small_conv", "dim": None, "unknown": 1}},
        {"network": {"backbone": "googlenet", "weights": None, "dim": None}},
        {"network": {"backbone": "small_conv", "dim": None, "options": {"file": "x"}}},
        {"network": {"backbone": "hf-hub:evil/model", "dim": None}},
        {"network": {"backbone": "../../evil", "dim": None}},
        {"network": None},
        {"network": {"dim": -1}},
        {"preprocessing": LOOK | {"resize": 10**9}},
        {"preprocessing": LOOK | {"size": "__import__('os')"}},
        {"preprocessing": LOOK | {"interpolation": "eval"}},
        {"preprocessing": LOOK | {"size": 0}},
        {"preprocessing": LOOK | {"mean": [0.5]}},
        {"preprocessing": LOOK | {"std": [0.0, 0.5, 0.5]}},
        {"precision": "bf4"},
        {"normalise": "yes"},
        {"name": 7},
    ],
    ids=str,
)
def test_a_network_that_does_not_fit_its_weights_is_refused(bundle, values):
    change(bundle, "model.json", **values)
    refusal(bundle)


@pytest.mark.parametrize("options", [{"depth": 3000}, {"depth": 10**10}, {"width": "wide", "depth": 40}], ids=str)
def test_a_forged_network_is_refused_before_memory_is_spent_on_it(bundle, options):
    network = json.loads((bundle / "model.json").read_text())["network"]
    change(bundle, "model.json", network=network | {"options": options})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert f"{WEIGHTS} is missing or damaged (model.json describes a larger network than its" in refusal(bundle)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18  # 256 MB, in kB


@pytest.mark.parametrize(
    "tensors",
    [
        {"vectors": torch.zeros(12, DIM + 1)},
        {"vectors": torch.zeros(11, DIM)},
        {"vectors": torch.zeros(12 * DIM)},
        {"vectors": torch.full((12, DIM), float("nan"))},
        {"vectors": torch.full((12, DIM), float("inf"))},
        {"vectors": torch.ones(12, DIM, dtype=torch.int8)},
        {"vectors": torch.ones(12, DIM, dtype=torch.int8), "scale/vectors": torch.ones(12, DIM)},
        {"vectors": torch.ones(12, DIM, dtype=torch.int8), "scale/vectors": torch.ones(12, 1, 1, 10**5)},
        {"vectors": torch.ones(12, DIM, dtype=torch.int64)},
        {"vectors": None, "others": torch.zeros(12, DIM)},
    ],
)
def test_vectors_of_another_shape_are_refused(bundle, tensors):
    resave(bundle, GALLERY, **tensors)
    assert GALLERY in refusal(bundle) or ENTRIES in refusal(bundle)


@pytest.mark.parametrize("wrong", ["twice", "number", "list", "short", "none"])
def test_entries_that_are_none_are_refused(bundle, wrong):
    entries = json.loads((bundle / ENTRIES).read_text())["entries"]
    entries[1] = {"twice": entries[0], "number": [7, None, ""], "list": [["a"], None, ""], "short": ["a", None],
                  "none": None}[wrong]  # fmt: skip
    change(bundle, ENTRIES, entries=entries)
    save_tensors(bundle / GALLERY, read_tensors(bundle / GALLERY)[0], {"contents": entries_hash(entries)})
    assert ENTRIES in refusal(bundle)


def test_ids_that_look_like_paths_are_names_and_nothing_more(bundle, tmp_path):
    entries = json.loads((bundle / ENTRIES).read_text())["entries"]
    entries[0][0] = f"../../{tmp_path.name}/secret"
    change(bundle, ENTRIES, entries=entries)
    save_tensors(bundle / GALLERY, read_tensors(bundle / GALLERY)[0], {"contents": entries_hash(entries)})
    write_checksums(bundle)
    model = similis.load(bundle, device="cpu")
    assert len(model.search(picture(3), 12)) == 12
    model.save(tmp_path / "copy")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bundle", "copy"]


@pytest.mark.parametrize("ends", [[-5] * 12, [10**12] * 12, list(range(12, 0, -1)), [0] * 11, [0] * 13])
def test_thumbnails_end_inside_their_bytes(bundle, ends):
    resave(bundle, "thumbnails.safetensors", ends=torch.tensor(ends))
    assert "thumbnails" in refusal(bundle)


@pytest.mark.parametrize("values", [{"far": "x"}, {"value": None}, {"classes": 3}, {"value": float("nan")}])
def test_a_threshold_is_a_number(bundle, values):
    change(bundle, "threshold.json", **values)
    assert "threshold.json" in refusal(bundle)


RATE = {"similarity": "x", "false_accept": 0, "false_reject": 0}


@pytest.mark.parametrize("rates", [None, 3, [[1]], [RATE], [RATE | {"similarity": float("nan")}]])
def test_rates_are_numbers(bundle, rates):
    change(bundle, "rates.json", rates=rates)
    assert "rates.json" in refusal(bundle)


def test_the_command_line_refuses_too(bundle, tmp_path, capsys):
    (bundle / "evil.pkl").write_bytes(b"x")
    code, said = call(capsys, "export", str(bundle), str(tmp_path / "new"))
    assert code == 1
    assert "evil.pkl" in said
    assert not (tmp_path / "new").exists()
