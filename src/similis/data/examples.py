"""What can be loaded: images with their preprocessing and cache, or ready feature vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from similis.data.cache import ImageCache
from similis.data.images import Pixels, prepare
from similis.data.items import open_item
from similis.data.manifest import Manifest
from similis.data.own_data import OWN, apply_transform
from similis.data.readers.archive import ZipSource
from similis.data.transforms import augment, draws_of, normalise, policy_of
from similis.labels import encode_labels
from similis.values import DataError, Preprocessing, UserError


class Request(NamedTuple):
    """One batch to fetch: rows of the manifest, policy, seed, epoch, views of each row, and pixels of a side.

    With two views a batch has all rows once, and then all of them again in another augmentation. Pixels are those of
    the network where None is given.
    """

    rows: Tensor
    policy: str
    seed: int
    epoch: int
    views: int = 1
    size: int | None = None


def augmented_batch(
    request: Request,
    preprocessing: Preprocessing,
    ids: Tensor,
    read_image: Callable[[int, float], Pixels],
    transform: Callable[[Any], Any] | None = None,
) -> Tensor:
    """All views of the rows of a request (views B, S, S, 3), uint8; each image is read once.

    Args:
        request: rows, policy, chance, views and size.
        preprocessing: of the network.
        ids: (N,) that the augmentation of an image is drawn by.
        read_image: (row, what the policy keeps) -> the prepared image.
        transform: of the policy ``own``.
    """
    policy, count = policy_of(request.policy), len(request.rows)
    wish = preprocessing if request.size is None else replace(preprocessing, size=request.size)
    batch = np.empty((request.views * count, wish.size, wish.size, 3), dtype=np.uint8)
    for place, (row, number) in enumerate(zip(request.rows.tolist(), ids[request.rows].tolist(), strict=True)):
        image = read_image(row, policy.keep)
        for view in range(request.views):
            draws = draws_of(request.seed, request.epoch, number, view) if policy.crop != "centre" else ()
            if policy.crop == OWN and transform is not None:
                batch[view * count + place] = apply_transform(transform, image, wish.size, draws)
            else:
                batch[view * count + place] = augment(image, policy, wish, draws)
    return torch.from_numpy(batch)


@dataclass(frozen=True, eq=False)
class ImageData:
    """Images of a manifest with a network's preprocessing; ``caches`` by what a policy keeps of an image.

    Build it with :func:`image_data`.
    """

    manifest: Manifest
    preprocessing: Preprocessing
    labels: Tensor
    ids: Tensor
    caches: dict[float, ImageCache]
    transform: Callable[[Any], Any] | None = None

    def fetch(self, request: Request) -> Tensor:
        """Prepared, cropped and flipped images (views B, S, S, 3), uint8."""
        return augmented_batch(request, self.preprocessing, self.ids, self.read_image, self.transform)

    def finish(self, raw: Tensor, *, channels_last: bool) -> Tensor:
        """Normalised images (B, 3, S, S), float32."""
        return normalise(raw, self.preprocessing, channels_last=channels_last)

    def read_image(self, row: int, keep: float) -> Pixels:
        """The decoded and resized image of a row, from the cache if it is there."""
        cache = self.caches.get(keep)
        found = cache.get(row) if cache else None
        if found is not None:
            return found
        wish = self.preprocessing
        try:
            image = prepare(
                self.manifest.read_bytes(row), resize=wish.resize, keep=keep, interpolation=wish.interpolation
            )
        except DataError as error:
            path = self.manifest.values("path")[row]
            raise DataError(
                f"{path!r} (row {row}) of {self.manifest.name!r}: {error}; "
                "remove or replace it; this finds all such images: similis data check FOLDER"
            ) from error
        if cache:
            cache.put(row, image)
        return image


@dataclass(frozen=True, eq=False)
class FeatureData:
    """Ready feature vectors (N, F) in place of images, for the ``identity`` backbone."""

    vectors: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", encode_labels(self.labels))
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.labels):
            raise UserError(f"want vectors (N, F) and labels (N,); given {self.vectors.shape}, {self.labels.shape}")

    def fetch(self, request: Request) -> Tensor:
        """Vectors of the rows (B, F); policies do not touch them, so that all views are one."""
        return self.vectors[request.rows].repeat(request.views, 1)

    def finish(self, raw: Tensor, *, channels_last: bool) -> Tensor:  # noqa: ARG002
        """The vectors as they are."""
        return raw


@dataclass(frozen=True, eq=False)
class ItemData:
    """Images from anywhere, as :func:`similis.data.items.open_item` gives them, for evaluation only."""

    items: Sequence[Any]
    preprocessing: Preprocessing
    names: Sequence[str] = ()  # of the items, for errors

    @property
    def labels(self) -> Tensor:
        """Zeros: items have no class."""
        return torch.zeros(len(self.items), dtype=torch.int64)

    def fetch(self, request: Request) -> Tensor:
        """Prepared and cropped images (views B, S, S, 3), uint8."""
        return augmented_batch(request, self.preprocessing, torch.arange(len(self.items)), self.read_image)

    def read_image(self, row: int, keep: float) -> Pixels:
        """An item, decoded and resized."""
        wish = self.preprocessing
        try:
            return prepare(open_item(self.items[row]), resize=wish.resize, keep=keep, interpolation=wish.interpolation)
        except DataError as error:
            name = self.names[row] if self.names else f"item {row}"
            raise DataError(f"{name}: {error}; give another image") from error

    def finish(self, raw: Tensor, *, channels_last: bool) -> Tensor:
        """Normalised images (B, 3, S, S), float32."""
        return normalise(raw, self.preprocessing, channels_last=channels_last)


Data = ImageData | FeatureData | ItemData  # what can be loaded


def cache_for(manifest: Manifest, look: tuple[object, ...], budget: int, *, shared: bool) -> ImageCache:
    """A cache for a manifest's images; one archive prepared in one way shares it with later runs of this process."""
    if not isinstance(manifest.source, ZipSource):
        return ImageCache(len(manifest), budget, shared=shared)
    return _kept_cache((manifest.fingerprint(), *look), len(manifest), budget, shared)


@lru_cache(maxsize=2)
def _kept_cache(key: tuple[object, ...], rows: int, budget: int, shared: bool) -> ImageCache:  # noqa: ARG001
    return ImageCache(rows, budget, shared=shared)


def image_data(
    manifest: Manifest,
    preprocessing: Preprocessing,
    *,
    cache_bytes: int = 0,
    policies: tuple[str, ...] = ("resize-crop", "eval"),
    workers: int = 0,
    transform: Callable[[Any], Any] | None = None,
) -> ImageData:
    """Images ready to be loaded, with a cache of decoded ones.

    Args:
        manifest: the images.
        preprocessing: what the network wants.
        cache_bytes: budget for decoded, resized images; 0 for none. Results are the same with any budget.
        policies: those that will be asked for; ``resize-crop`` and ``eval`` share one cache.
        workers: number of worker processes that will share the cache.
        transform: of the policy ``own``.

    Example:
        >>> from similis.data.loader import Loader
        >>> from similis.data.open_data import open_data
        >>> data = image_data(open_data("synthetic?classes=4&images=2&size=16"), Preprocessing(size=8, resize=10))
        >>> next(Loader(data).ordered(torch.arange(8), batch_size=4)).images.shape
        torch.Size([4, 3, 8, 8])
    """
    kept = {policy_of(name).keep for name in policies} if cache_bytes else set()
    look = (preprocessing.resize, preprocessing.interpolation)
    caches = {keep: cache_for(manifest, (*look, keep), cache_bytes // len(kept), shared=workers > 0) for keep in kept}
    return ImageData(manifest, preprocessing, manifest.labels, manifest.ids, caches, transform)
