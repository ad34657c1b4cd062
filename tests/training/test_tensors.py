"""Tensors in files: what was damaged or exchanged on the disk is noticed, whichever byte it is."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from similis.training.files import DamagedError
from similis.training.tensors import cached_tensors, load_model, read_tensors, save_model, save_tensors
from similis.values import DataError

TENSORS = {
    "a": torch.arange(6.0).view(2, 3), "half": torch.ones(3, dtype=torch.bfloat16), "none": torch.empty(0, 4),
    "flags": torch.tensor([True, False]), "number": torch.tensor(7),
}  # fmt: skip


@pytest.fixture
def path(tmp_path):
    save_tensors(tmp_path / "some.safetensors", TENSORS, {"contents": "run/some", "epoch": "3"})
    return tmp_path / "some.safetensors"


def test_tensors_and_metadata_are_read_as_written_and_files_are_equal_if_these_are(path):
    tensors, described = read_tensors(path, "run/some")
    assert {key: value.dtype for key, value in tensors.items()} == {key: v.dtype for key, v in TENSORS.items()}
    assert all(torch.equal(value, TENSORS[key]) for key, value in tensors.items())
    assert described == {"contents": "run/some", "epoch": "3"}
    first = path.read_bytes()
    for _ in range(5):
        save_tensors(path, TENSORS, {"epoch": "3", "contents": "run/some"})
        assert path.read_bytes() == first


def test_no_single_changed_byte_goes_unnoticed(path):
    """Each byte of the file in turn; what is read, if anything, is what was written."""
    data = path.read_bytes()
    unnoticed = []
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x01]) + data[place + 1 :])
        try:
            tensors, described = read_tensors(path, "run/some")
        except DamagedError:
            continue
        same = described == {"contents": "run/some", "epoch": "3"} and tensors.keys() == TENSORS.keys()
        if not (same and all(torch.equal(value, TENSORS[key]) for key, value in tensors.items())):
            unnoticed.append(place)
    assert unnoticed == []


def test_the_contents_of_another_run_are_refused(path):
    with pytest.raises(DamagedError, match="it holds run/some, not run/other"):
        read_tensors(path, "run/other")
    save_file({"a": torch.zeros(1)}, path, {"epoch": "3"})
    with pytest.raises(DamagedError, match="its checksum"):
        read_tensors(path)


def test_a_missing_file_and_a_folder_in_its_place_are_one_sentence(tmp_path):
    for name in (".", "none.safetensors"):
        with pytest.raises(DamagedError, match=r"missing or damaged \(.+\); delete it"):
            read_tensors(tmp_path / name)


def test_a_failed_write_leaves_the_old_file_and_no_half(path):
    before = path.read_bytes()
    with pytest.raises(AttributeError):
        save_tensors(path, {"a": "no tensor"}, {})  # type: ignore[dict-item]
    path.with_name("folder").mkdir()
    with pytest.raises(DataError, match=r"cannot write .*folder"):
        save_tensors(path.with_name("folder"), TENSORS, {})
    assert path.read_bytes() == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["folder", "some.safetensors"]


def test_a_cache_is_made_again_when_it_is_damaged_and_done_without_when_it_cannot_be_written(path, tmp_path, caplog):
    def make():
        made.append(1)
        return {"a": torch.ones(2)}

    made: list[int] = []
    for damage in (b"", None, None):
        if damage is not None:
            path.write_bytes(damage)
        assert torch.equal(cached_tensors(path, make, {"contents": "cache"})["a"], torch.ones(2))
    assert len(made) == 1
    assert cached_tensors(path, make, {"contents": "other cache"}).keys() == {"a"}
    assert len(made) == 2
    (tmp_path / "file").touch()
    assert cached_tensors(tmp_path / "file" / "below", make, {}).keys() == {"a"}
    assert "not kept for the next time" in caplog.text


def test_weights_of_another_network_are_refused(tmp_path):
    save_model(tmp_path / "model", nn.Linear(2, 3), {"contents": "run/model"})
    own = nn.Linear(2, 3)
    load_model(own, tmp_path / "model", "run/model")
    with pytest.raises(DamagedError, match="do not fit the model"):
        load_model(nn.Linear(2, 4), tmp_path / "model", "run/model")
