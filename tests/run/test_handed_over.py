"""A network, data and a transform of the user's own: trained, killed and resumed, told apart, opened again."""

from __future__ import annotations

import signal

import numpy as np
import pytest
import torch
from torch import nn

import similis
from similis.run.machine import Machine
from similis.run.prepared import prepare
from similis.run.run import hand_over, run_prepared
from similis.run.spec import parse_spec
from similis.values import UserError
from tests.forking import FORKING, start
from tests.run.small import Killer

SPEC = {
    "model": {"dim": 8, "image_size": 16, "freeze_batch_norm": False},
    "training": {"epochs": 2, "batch_size": 10, "per_class": 5},
    "objective": {"loss": "proxy_anchor"},
}


class Small(nn.Module):
    def __init__(self, pooled: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv, self.pooled = nn.Conv2d(3, 6, 3, stride=2), pooled

    def forward(self, images):
        found = self.conv(images).relu()
        return found.mean((2, 3)) if self.pooled else found


class Squares(torch.utils.data.Dataset):
    """Twelve classes of six pictures."""

    def __init__(self, shift: int = 0) -> None:
        chance = np.random.default_rng(5)
        self.images = chance.integers(0, 200, (72, 20, 20, 3)).astype(np.uint8) + np.uint8(shift)

    def __len__(self) -> int:
        return 72

    def __getitem__(self, row: int):
        return self.images[row], f"class {row % 12}"


def jitter(image):
    """Draws from all three generators that transforms use."""
    shift = int(torch.randint(4, ())) + np.random.randint(1)
    return image.crop((shift, shift, shift + 16, shift + 16))


def train(folder, **own):
    given = {"network": Small(), "data": Squares(), "transform": jitter, **own}
    return similis.train(SPEC, runs=folder, device="cpu", **given)


def train_until(folder, step):
    values, manifest = hand_over(SPEC, Small(), Squares(), jitter, {})
    run_prepared(prepare(parse_spec(values), Machine(root=folder, device="cpu"), manifest), Killer("step", step))


def test_killed_and_resumed_it_has_the_bits_of_a_run_in_one_piece(tmp_path):
    whole = train(tmp_path / "one")
    for step in (1, 3):
        process = start(train_until, tmp_path / "killed", step)
        process.join()
        assert process.exitcode == -signal.SIGKILL
    again = train(tmp_path / "killed")
    assert again.address == whole.address
    assert again.test == whole.test
    weights = [(result.folder / "model.safetensors").read_bytes() for result in (whole, again)]
    assert weights[0] == weights[1]


def test_each_of_them_is_a_part_of_the_address_and_of_the_record(tmp_path):
    first = train(tmp_path)
    assert train(tmp_path).address == first.address
    other = Small()
    with torch.no_grad():
        other.conv.weight.add_(1)
    turned = {"transform": lambda x: jitter(x.rotate(0))}
    for own in ({"network": other}, {"network": Small(pooled=True)}, {"data": Squares(1)}, turned):
        assert train(tmp_path, **own).address != first.address, own
    assert first.facts["handed over"].keys() == {"network", "data", "transform"}
    named = train(tmp_path, named={"network": "mine-1", "data": "squares-1"})
    assert named.facts["handed over"].items() >= {"network": "own:mine-1", "data": "own:squares-1"}.items()


def test_the_model_is_opened_again_with_its_code(tmp_path):
    result = train(tmp_path)
    model = similis.load(result.folder, network=Small(), device="cpu")
    vectors = model.encode([Squares()[row][0] for row in range(4)])
    assert vectors.shape == (4, 8)
    saved = model.save(tmp_path / "saved")
    again = similis.load(saved, network=Small(), device="cpu").encode([Squares()[0][0]])
    torch.testing.assert_close(again, vectors[:1])
    with pytest.raises(UserError, match="needs no code"):
        similis.load(similis.pretrained("small_conv", weights=None, size=16).save(tmp_path / "other"), network=Small())


def test_without_its_code_the_model_says_what_to_do(tmp_path):
    result = train(tmp_path, named={"network": "only-here"})
    process = FORKING.Pool(1)
    with process, pytest.raises(UserError, match="network=module"):
        process.apply(similis.load, (result.folder,))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"network": nn.Flatten(0)}, "return .B, D. or .B, C, H, W."),
        ({"network": Small}, "that is built"),
        ({"data": iter([])}, "map-style"),
        ({"data": [1, 2, 3]}, "give .image, label."),
        ({"transform": lambda image: image}, "the network takes .16, 16, 3."),
        ({"transform": eval("lambda image: image")}, "cannot be read.*named="),
        ({"named": {"netwrk": "x"}}, "named has"),
    ],
)
def test_what_cannot_be_used_is_refused(own, message, tmp_path):
    with pytest.raises(UserError, match=message):
        train(tmp_path, **own)


def test_a_network_of_one_size_and_a_wrong_one(tmp_path):
    fixed = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 6))
    result = similis.train(SPEC, runs=tmp_path, network=fixed, data=Squares(), device="cpu")
    assert [row["pixels"] for row in result.before] == [16]
    with pytest.raises(UserError, match=r"does not fit the weights.*pass the module"):
        similis.load(result.folder, network=Small(), device="cpu")


def test_its_own_vectors_need_no_pooling(tmp_path):
    spec = {**SPEC, "model": {**SPEC["model"], "dim": None}}
    result = similis.train(spec, runs=tmp_path, network=Small(pooled=True), data=Squares(), device="cpu")
    assert similis.load(result.folder, network=Small(pooled=True)).dim == 6
