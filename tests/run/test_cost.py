"""What a training will cost: what a step keeps is counted, what an image takes is timed."""

import pytest
import torch

from similis.model.embedder import build_embedder
from similis.run.cost import activation_bytes, cached_share, time_images
from similis.run.machine import Machine
from similis.run.parts import build_loader, build_model, open_source
from tests.run.small import small


def test_activations_are_counted_and_the_count_repeats():
    sizes = [activation_bytes(build_embedder(backbone="small_conv", dim=8, image_size=size)) for size in (16, 32, 32)]
    assert sizes[1] == sizes[2]
    assert sizes[1] / sizes[0] == pytest.approx(4, rel=0.1)


def test_parameters_are_not_activations():
    model = build_embedder(backbone="small_conv", dim=4096, image_size=16)
    weights = sum(4 * p.numel() for p in model.parameters())
    assert activation_bytes(model) < weights / 4


@pytest.mark.parametrize("untouched", [True, False])
def test_every_part_is_timed(untouched, tmp_path):
    spec = small(evaluation__untouched=untouched)
    machine = Machine(root=tmp_path, device="cpu")
    state = torch.get_rng_state()
    found = time_images(spec, machine, open_source(spec, machine))
    assert all(value > 0 for value in found[:4])
    assert (found.untouched > 0, found.untouched_loads) == ((True, 2) if untouched else (False, 0))
    assert torch.equal(torch.get_rng_state(), state)
    assert not list(tmp_path.iterdir())


def test_images_beyond_the_cache_are_read_again():
    """36 training images of 16 x 16 pixels are kept as they are: 768 bytes each."""
    spec = small()
    shares = []
    for images in (0, 9, 36):
        machine = Machine(device="cpu", cache_bytes=2 * 768 * images)  # half of it is for evaluation
        source = open_source(spec, machine)
        loader = build_loader(build_model(spec, machine), source, spec, machine)
        next(loader.train(source.split.train[None, :4], policy=spec.training.policy, seed=0, epoch=0))
        shares.append(cached_share(loader, spec, source) * len(source.split.train))
    assert shares == [0, 9, min(36, len(source.split.train))]
