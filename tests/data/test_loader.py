"""The loader: the same bits for any number of workers, any cache, any interruption."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from similis.data.cache import ImageCache
from similis.data.examples import FeatureData, image_data
from similis.data.loader import Loader
from similis.data.open_data import open_data
from similis.data.readers.archive import read_archive
from similis.data.readers.parquet import ParquetSource
from similis.data.samplers.balanced import balanced
from similis.values import DataError, Preprocessing, UserError
from tests.data.pictures import picture, write, write_zip

# Three workers on a machine of two cores are slow, which is all that torch warns of.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
WISH = Preprocessing(size=20, resize=24)
MANIFEST = open_data("synthetic?classes=6&images=5&size=40")
BATCHES = balanced(MANIFEST.labels, batch_size=6, seed=0, epoch=0, per_class=2)
EPOCH = {"policy": "resize-crop", "seed": 3, "epoch": 1}


def passes(workers=0, cache_bytes=0, policy="resize-crop", manifest=MANIFEST, start=0):
    """Two epochs and an evaluation, as one list of tensors."""
    data = image_data(manifest, WISH, cache_bytes=cache_bytes, policies=(policy, "eval"), workers=workers)
    loader = Loader(data, workers=workers)
    batches = [
        batch for epoch in (1, 2) for batch in loader.train(BATCHES, policy=policy, seed=3, epoch=epoch, start=start)
    ]
    batches += list(loader.ordered(torch.arange(30), batch_size=8))
    return [tensor for batch in batches for tensor in batch]


def same(one, two):
    return len(one) == len(two) and all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_batches_hold_what_was_asked():
    loader = Loader(image_data(MANIFEST, WISH))
    batches = list(loader.train(BATCHES, **EPOCH))
    assert torch.equal(torch.stack([batch.ids for batch in batches]), BATCHES)
    assert all(torch.equal(batch.labels, MANIFEST.labels[batch.ids]) for batch in batches)
    assert batches[0].images.shape == (6, 3, 20, 20)
    assert batches[0].images.dtype == torch.float32
    ordered = list(loader.ordered(torch.arange(30), batch_size=8))
    assert torch.cat([batch.ids for batch in ordered]).tolist() == list(range(30))
    assert len(ordered[-1].ids) == 6
    assert list(loader.ordered(torch.arange(0), batch_size=8)) == []


@pytest.mark.parametrize("policy", ["resize-crop", "random-resized"])
def test_workers_and_caches_change_nothing(policy):
    plain = passes(policy=policy)
    for workers in (0, 1, 3):
        for cache_bytes in (0, 12_000, 10**7):
            if workers or cache_bytes:
                assert same(plain, passes(workers, cache_bytes, policy)), (workers, cache_bytes)


def test_epochs_and_seeds_change_the_images():
    loader = Loader(image_data(MANIFEST, WISH))
    images = [next(loader.train(BATCHES, policy="resize-crop", seed=seed, epoch=epoch)).images
              for seed, epoch in [(3, 1), (3, 2), (4, 1)]]  # fmt: skip
    assert not torch.equal(images[0], images[1])
    assert not torch.equal(images[0], images[2])


def test_an_image_does_not_depend_on_its_batch_or_on_selection():
    loader = Loader(image_data(MANIFEST, WISH))
    alone = next(loader.train(torch.tensor([[17]]), **EPOCH)).images[0]
    company = next(loader.train(torch.tensor([[4, 29, 17, 0]]), **EPOCH)).images[2]
    selected = next(Loader(image_data(MANIFEST.select([17]), WISH)).train(torch.tensor([[0]]), **EPOCH)).images[0]
    assert torch.equal(alone, company)
    assert torch.equal(alone, selected)


@pytest.mark.parametrize("workers", [0, 2])
def test_resuming_in_mid_epoch_gives_the_rest(workers):
    loader = Loader(image_data(MANIFEST, WISH, workers=workers), workers=workers)
    whole = list(loader.train(BATCHES, **EPOCH))
    rest = list(loader.train(BATCHES, **EPOCH, start=2))
    assert len(rest) == len(whole) - 2
    assert all(torch.equal(a.images, b.images) for a, b in zip(whole[2:], rest, strict=True))


def test_a_pass_left_early_does_not_leak_into_the_next():
    loader = Loader(image_data(MANIFEST, WISH, workers=2), workers=2)
    whole = list(loader.train(BATCHES, **EPOCH))
    next(loader.train(BATCHES.flip(0), **EPOCH))
    again = list(loader.train(BATCHES, **EPOCH))
    assert all(torch.equal(a.images, b.images) for a, b in zip(whole, again, strict=True))


def test_global_random_state_is_left_alone():
    for workers in (0, 2):
        loader = Loader(image_data(MANIFEST, WISH, workers=workers), workers=workers)
        state = torch.get_rng_state()
        list(loader.train(BATCHES, **EPOCH))
        assert torch.equal(state, torch.get_rng_state())


def test_the_cache_is_used_and_keeps_its_budget(tmp_path):
    manifest = open_data(str(write(tmp_path, {f"a/{n}.png": picture(n, 30, 30) for n in range(4)})))
    data = image_data(manifest, WISH, cache_bytes=3 * 24 * 24 * 3 + 5)
    rows = torch.arange(4)
    first = next(Loader(data).ordered(rows, batch_size=4))
    cache = data.caches[1.0]
    assert int(cache._used[0]) == 3 * 24 * 24 * 3
    for number in range(3):  # what is cached is not read again
        (tmp_path / f"a/{number}.png").unlink()
    assert torch.equal(first.images, next(Loader(data).ordered(rows, batch_size=4)).images)
    (tmp_path / "a/3.png").unlink()
    with pytest.raises(DataError, match=r"a/3\.png"):
        next(Loader(data).ordered(rows, batch_size=4))


def test_workers_fill_the_cache_of_the_parent():
    data = image_data(MANIFEST, WISH, cache_bytes=10**6, workers=2)
    list(Loader(data, workers=2).ordered(torch.arange(30), batch_size=5))
    assert int(data.caches[1.0]._used[0]) == 30 * 24 * 24 * 3
    assert all(data.caches[1.0].get(row) is not None for row in range(30))


def test_cache_returns_what_was_put():
    cache = ImageCache(3, 1000, shared=False)
    image = torch.arange(4 * 5 * 3, dtype=torch.uint8).view(4, 5, 3).numpy()
    assert cache.get(1) is None
    cache.put(1, image)
    cache.put(1, image)
    assert (cache.get(1) == image).all()
    assert int(cache._used[0]) == 60


def test_zip_and_parquet_feed_workers(tmp_path):
    files = {path: MANIFEST.read_bytes(row) for row, path in enumerate(MANIFEST.values("path"))}
    plain = passes()
    zipped = read_archive(write_zip(tmp_path / "s.zip", files))
    zipped.read_bytes(0)  # opened before the fork: workers must not share the handle
    assert same(plain, passes(3, manifest=zipped))
    columns = {name: MANIFEST.table.column(name) for name in ("path", "label", "class_name", "bytes")}
    pq.write_table(pa.table(columns), tmp_path / "s.parquet", row_group_size=7)
    packed = open_data(tmp_path / "s.parquet")
    assert isinstance(packed.source, ParquetSource)
    packed.read_bytes(0)  # mapped before the fork
    assert same(plain, passes(3, manifest=packed))
    assert same(plain, passes(1, 10**6, manifest=packed))


def test_broken_images_are_named(tmp_path):
    manifest = open_data(str(write(tmp_path, {"a/good.png": picture(0), "a/bad.png": picture(1)[:60]})))
    for workers in (0, 1):
        with pytest.raises(DataError, match=r"^'a/bad\.png'.*similis data check FOLDER$"):
            list(Loader(image_data(manifest, WISH), workers=workers).ordered(torch.arange(2), batch_size=2))


def test_feature_vectors_pass_unchanged():
    vectors, labels = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 3
    for workers in (0, 2):
        loader = Loader(FeatureData(vectors, labels), workers=workers)
        batch = next(loader.train(torch.tensor([[8, 1]]), **EPOCH))
        assert torch.equal(batch.images, vectors[[8, 1]])
        assert batch.labels.tolist() == [2, 1]
        assert torch.equal(torch.cat([b.images for b in loader.ordered(torch.arange(9), batch_size=4)]), vectors)
    with pytest.raises(UserError):
        FeatureData(vectors, labels[:3])


def test_channels_last():
    batch = next(Loader(image_data(MANIFEST, WISH), channels_last=True).train(BATCHES, **EPOCH))
    assert batch.images.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(batch.images, next(Loader(image_data(MANIFEST, WISH)).train(BATCHES, **EPOCH)).images)


def test_wrong_arguments_are_refused():
    loader = Loader(image_data(MANIFEST, WISH))
    with pytest.raises(UserError, match="policy"):
        loader.train(BATCHES, policy="none", seed=0, epoch=0)
    with pytest.raises(UserError):
        loader.ordered(torch.arange(3), batch_size=0)
    with pytest.raises(UserError):
        Loader(image_data(MANIFEST, WISH), workers=-1)
