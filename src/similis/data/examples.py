"""What can be loaded: images with their preprocessing and cache, or ready feature vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from similis.data.cache import ImageCache
from similis.data.images import Pixels, prepare
from similis.data.items import open_item
from similis.data.manifest import Manifest
from similis.data.own_data import OWN, apply_transform
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


@dataclass(frozen=True, eq=False)
class ImageData:
    """Images with a network's preprocessing; built by :func:`image_data`, or :func:`item_data`.

    Attributes:
        read: row -> what :func:`similis.data.images.prepare` takes.
        explain: (row, error) -> the sentence about an image that cannot be read.
        preprocessing: of the network.
        labels: (N,) of the images.
        ids: (N,) that the augmentation of an image is drawn by.
        caches: by what a policy keeps of an image.
        transform: of the policy ``own``.
    """

    read: Callable[[int], Any]
    explain: Callable[[int, DataError], str]
    preprocessing: Preprocessing
    labels: Tensor
    ids: Tensor
    caches: Mapping[float, ImageCache] = field(default_factory=dict)
    transform: Callable[[Any], Any] | None = None

    def fetch(self, request: Request) -> Tensor:
        """Prepared, cropped and flipped images (views B, S, S, 3), uint8; each image is read once."""
        policy, count = policy_of(request.policy), len(request.rows)
        wish = self.preprocessing if request.size is None else replace(self.preprocessing, size=request.size)
        batch = np.empty((request.views * count, wish.size, wish.size, 3), dtype=np.uint8)
        for place, (row, number) in enumerate(zip(request.rows.tolist(), self.ids[request.rows].tolist(), strict=True)):
            image = self.read_image(row, policy.keep)
            for view in range(request.views):
                draws = draws_of(request.seed, request.epoch, number, view) if policy.crop != "centre" else ()
                if policy.crop == OWN and self.transform is not None:
                    batch[view * count + place] = apply_transform(self.transform, image, wish.size, draws)
                else:
                    batch[view * count + place] = augment(image, policy, wish, draws)
        return torch.from_numpy(batch)

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
            image = prepare(self.read(row), resize=wish.resize, keep=keep, interpolation=wish.interpolation)
        except DataError as error:
            raise DataError(self.explain(row, error)) from error
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


Data = ImageData | FeatureData  # what can be loaded


def item_data(items: Sequence[Any], preprocessing: Preprocessing, names: Sequence[str] = ()) -> ImageData:
    """Images from anywhere, as :func:`similis.data.items.open_item` gives them; ``names`` are for errors."""
    rows = torch.arange(len(items))  # items have no class
    explain = partial(explain_item, names)
    return ImageData(partial(read_item, items), explain, preprocessing, torch.zeros_like(rows), rows)


def read_item(items: Sequence[Any], row: int) -> Any:
    """What an item holds."""
    return open_item(items[row])


def explain_item(names: Sequence[str], row: int, error: DataError) -> str:
    """The sentence about an item that cannot be read."""
    return f"{names[row] if names else f'item {row}'}: {error}; give another image"


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
    caches = {keep: ImageCache(len(manifest), cache_bytes // len(kept), shared=workers > 0) for keep in kept}
    explain = partial(explain_row, manifest)
    return ImageData(manifest.read_bytes, explain, preprocessing, manifest.labels, manifest.ids, caches, transform)


def explain_row(manifest: Manifest, row: int, error: DataError) -> str:
    """The sentence about an image of a data set that cannot be read."""
    return (
        f"{manifest.values('path')[row]!r} (row {row}) of {manifest.name!r}: {error}; "
        "remove or replace it; this finds all such images: similis data check FOLDER"
    )
