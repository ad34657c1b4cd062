"""The generated characters: deterministic, and raw pixels do not find them."""

import pytest
import torch

from similis.data.datasets.strokes import strokes
from similis.data.examples import image_data
from similis.data.loader import Loader
from similis.retrieval.evaluate import evaluate
from similis.study.floors import RawPixels
from similis.values import Preprocessing, UserError


def test_same_arguments_same_bytes():
    one, two = (strokes(classes=5, images=3, size=16) for _ in range(2))
    assert one.table.equals(two.table)
    assert not strokes(classes=5, images=3, size=16, seed=1).table.equals(one.table)


def test_raw_pixels_find_few_of_them():
    manifest = strokes(classes=60)
    loader = Loader(image_data(manifest, Preprocessing(size=28, resize=28)))
    images = next(loader.ordered(torch.arange(len(manifest)), batch_size=len(manifest))).images
    assert len(images.flatten(1).unique(dim=0)) == len(manifest)
    assert 1.5 / 60 < evaluate(RawPixels()(images), manifest.labels).means["recall@1"] < 0.35


@pytest.mark.parametrize("wrong", [{"classes": 1}, {"images": 0}, {"size": 4}])
def test_limits(wrong):
    with pytest.raises(UserError, match="strokes takes"):
        strokes(**wrong)
