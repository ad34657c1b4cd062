"""The generated characters: raw pixels do not find them."""

import torch

from similis.data.datasets.strokes import strokes
from similis.data.examples import image_data
from similis.data.loader import Loader
from similis.retrieval.evaluate import evaluate
from similis.study.floors import RawPixels
from similis.values import Preprocessing


def test_raw_pixels_find_few_of_them():
    manifest = strokes(classes=60)
    loader = Loader(image_data(manifest, Preprocessing(size=28, resize=28)))
    images = next(loader.ordered(torch.arange(len(manifest)), batch_size=len(manifest))).images
    assert len(images.flatten(1).unique(dim=0)) == len(manifest)
    assert 1.5 / 60 < evaluate(RawPixels()(images), manifest.labels).means["recall@1"] < 0.35
