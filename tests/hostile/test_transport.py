"""A loss travels: pickled, copied or saved with ``torch.save``, it gives the same value and gradient."""

import copy
import io
import pickle
import subprocess
import sys

import pytest
import torch

from similis.registry import losses
from tests.hostile.attacks import batch, every_form, results, same
from tests.hostile.wrapped import WRAPPERS
from tests.proof import build, make


def save_and_load(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


WAYS = {
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "deepcopy": copy.deepcopy,
    "torch.save": save_and_load,
}
every_way = pytest.mark.parametrize("way", list(WAYS))


@every_form
@every_way
def test_a_loss_travels(entry, form, way):
    first = build(entry, form, dtype=torch.float32)
    x, labels = batch()
    want = results(first, x, labels)
    second = WAYS[way](first)
    assert same(results(second, x, labels), want)
    with torch.no_grad():
        for value in second.parameters():
            value.add_(1.0)
    assert same(results(first, x, labels), want), "the copy shares parameters with its original"


@every_way
@pytest.mark.parametrize("wrapper", list(WRAPPERS))
def test_a_wrapper_travels_with_its_state(wrapper, way):
    """In the middle of a training; afterwards the copy and the original go on alike, and apart."""
    first = WRAPPERS[wrapper]()
    for seed in (0, 1):
        first(*batch(seed))
    second, third = WAYS[way](first), WAYS[way](first)
    for _ in range(3):
        second(*batch(5))  # what the copy sees does not reach the original
    for seed in (2, 3):
        assert same(results(third, *batch(seed)), results(first, *batch(seed)))


@pytest.mark.parametrize("entry", list(losses), ids=lambda entry: entry.name)
def test_presets_and_class_ids_travel(entry):
    x, labels = batch()
    ids = [-5, 3, 2**40, 2**54 + 1]
    for preset in [None, *entry.presets]:
        first = make(entry, preset=preset, class_ids=ids) if entry.learns else make(entry, preset=preset)
        second = save_and_load(first)
        assert same(results(second, x, torch.tensor(ids)[labels]), results(first, x, torch.tensor(ids)[labels]))
        assert repr(second) == repr(first)


def test_a_loss_of_another_process_is_the_same(tmp_path):
    """A fresh interpreter knows nothing of the losses that were registered here."""
    x, labels = batch()
    made = {entry.name: make(entry) for entry in losses}
    torch.save((made, x, labels, {name: each(x, labels).item() for name, each in made.items()}), tmp_path / "all.pt")
    check = (
        "import sys, torch\n"
        "made, x, labels, want = torch.load(sys.argv[1], weights_only=False)\n"
        "assert {name: each(x, labels).item() for name, each in made.items()} == want\n"
        "print(len(made))"
    )
    command = [sys.executable, "-c", check, tmp_path / "all.pt"]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    assert run.stdout.strip() == str(len(made)), run.stderr
