"""The generated data sets: deterministic; classes of the first are distinct and learnable."""

import pytest
import torch

from similis.data.datasets.strokes import strokes
from similis.data.datasets.synthetic import COLOURS, SHAPES, STRIPES, parts_of, synthetic
from similis.data.examples import image_data
from similis.data.loader import Loader
from similis.values import Preprocessing, UserError


@pytest.mark.parametrize("draw", [synthetic, strokes])
def test_same_arguments_same_bytes(draw):
    one, two = (draw(classes=5, images=3, size=16) for _ in range(2))
    assert one.table.equals(two.table)
    assert not draw(classes=5, images=3, size=16, seed=1).table.equals(one.table)


def test_classes_are_all_different_and_mixed_over_the_split():
    most = len(SHAPES) * len(COLOURS) * len(STRIPES)
    assert len({parts_of(label) for label in range(most)}) == most
    with pytest.raises(UserError, match=f"synthetic takes 2 to {most} classes"):
        synthetic(classes=most + 1)
    for half in (0, 1):
        parts = [parts_of(label) for label in range(half, 32, 2)]
        assert {shape for _, _, shape in parts} == set(SHAPES)
        assert len({colour for _, colour, _ in parts}) >= 4


def test_images_of_a_class_are_alike_but_not_equal():
    """Colours alone tell classes apart better than chance, and no two images are the same."""
    manifest = synthetic(classes=8, images=6, size=24)
    images = next(
        Loader(image_data(manifest, Preprocessing(size=24, resize=24))).ordered(torch.arange(48), batch_size=48)
    ).images
    assert len(images.flatten(1).unique(dim=0)) == 48
    saturation = images - images.mean(1, keepdim=True)
    features = torch.nn.functional.normalize(saturation.flatten(2).std(2), dim=1)
    similar = (features @ features.T).fill_diagonal_(-1)
    hits = manifest.labels[similar.argmax(1)] == manifest.labels
    assert float(hits.float().mean()) > 2 / 8


@pytest.mark.parametrize("draw", [synthetic, strokes])
@pytest.mark.parametrize("wrong", [{"classes": 1}, {"images": 0}, {"size": 4}])
def test_limits(draw, wrong):
    with pytest.raises(UserError, match=f"{draw.__name__} takes"):
        draw(**wrong)
