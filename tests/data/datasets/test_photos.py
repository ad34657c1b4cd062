"""The real photos: counts, splits, pixels."""

import pytest
import torch

from similis.data.catalogue import Counts, count_parts
from similis.data.examples import image_data
from similis.data.loader import Loader
from similis.data.open_data import open_data
from similis.data.splits import split_data
from similis.values import DataError, Preprocessing
from tests.data.pictures import photos

pytestmark = pytest.mark.photos
COPIES = {
    "cub200_2011": ({"train": Counts(5864, 100), "test": Counts(5924, 100)}, None),
    "cars196": ({"train": Counts(8048, 98), "test": Counts(8122, 98)}, "expected 8054 .* found 8048"),
    "omniglot": ({"train": Counts(4840, 242), "test": Counts(13180, 659)}, "expected 19280 .* found 4840"),
    "emoji": ({"train": Counts(5208, 981), "test": Counts(5192, 981)}, None),
    "grocery": ({"all": Counts(5421, 81)}, None),
}


@pytest.mark.parametrize("name", COPIES)
def test_counts_and_pixels(name):
    root = photos(name)
    counts, complaint = COPIES[name]
    if complaint:
        with pytest.raises(DataError, match=complaint):
            open_data(name, root=root)
    manifest = open_data(name, root=root, allow_counts=complaint is not None)
    assert count_parts(manifest) == counts
    assert manifest.labels.unique().tolist() == list(range(sum(part.classes for part in counts.values())))
    loader = Loader(image_data(manifest, Preprocessing(size=56, resize=64)))
    batch = next(loader.ordered(torch.linspace(0, len(manifest) - 1, 12).long(), batch_size=12))
    assert batch.images.shape == (12, 3, 56, 56)
    assert batch.images.isfinite().all()
    assert float(batch.images.std()) > 0.1


def test_the_usual_half_of_the_birds_is_tested():
    manifest = open_data("cub200_2011", root=photos("cub200_2011"))
    split = split_data(manifest, protocol="fixed-validation", seed=0)
    labels = manifest.labels
    assert labels[split.test].unique().tolist() == list(range(100, 200))
    assert len(labels[split.validation].unique()) == 10
    assert len(split.train) + len(split.validation) == 5864
