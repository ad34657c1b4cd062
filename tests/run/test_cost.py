"""What a training will cost: what a step keeps is counted, what an image takes is timed."""

import pytest
import torch

from similis.networks.embedder import build_embedder
from similis.run.cost import measure_step
from similis.run.machine import Machine
from similis.run.network import activation_bytes
from similis.run.prepared import prepare
from tests.run.small import small


def test_activations_are_counted_and_the_count_repeats():
    sizes = [activation_bytes(build_embedder(backbone="small_conv", dim=8, image_size=size)) for size in (16, 32, 32)]
    assert sizes[1] == sizes[2]
    assert sizes[1] / sizes[0] == pytest.approx(4, rel=0.1)


def test_parameters_are_not_activations():
    model = build_embedder(backbone="small_conv", dim=4096, image_size=16)
    weights = sum(4 * p.numel() for p in model.parameters())
    assert activation_bytes(model) < weights / 4


def test_a_step_is_measured_and_leaves_nothing_behind(tmp_path):
    spec, machine = small(), Machine(root=tmp_path, device="cpu")
    state = torch.get_rng_state()
    found = measure_step(prepare(spec, machine))
    assert all(value > 0 for value in found)
    assert torch.equal(torch.get_rng_state(), state)
    assert not list(tmp_path.iterdir())
