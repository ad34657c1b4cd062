"""From items to vectors: any iterable of images through a network, in chunks, nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from similis.data.content import digest_of
from similis.data.examples import FeatureData, ImageData, Request, item_data
from similis.data.items import KINDS, is_item, item_digest, open_item
from similis.data.loader import Loader
from similis.data.manifest import Manifest
from similis.networks.embedder import Embedder
from similis.retrieval.embed import embed
from similis.retrieval.gallery import Gallery
from similis.run.machine import Machine
from similis.run.parts import images_for
from similis.training.tensors import cached_tensors
from similis.values import UserError, send

CHUNK = 256  # items that are open at once


class Encoder:
    """A network with its preprocessing, as a function of items.

    A vector (D,) given to a network of images is an embedding already and stays as it is. A network of vectors takes
    vectors (F,) as its items.
    """

    def __init__(self, embedder: Embedder, machine: Machine) -> None:
        self.embedder = embedder.eval()
        self.machine = machine

    def encode(
        self, items: Iterable[Any] | Manifest, batch_size: int, progress: Callable[[int], None] | None = None
    ) -> Tensor:
        """Embeddings (N, D) of items or of a data set."""
        if isinstance(items, Manifest):
            loader = images_for(self.embedder, items, self.machine, policies=("eval",))
            return self._forward(loader, len(items), batch_size)
        found, done = bytearray(), 0  # grows in place: chunks that are joined at the end would be held twice
        for chunk in chunks(items):
            found += self.look_up(chunk, None, batch_size, done)[0].numpy().tobytes()
            done += len(chunk)
            if progress is not None:
                progress(done)
        if not done:
            return torch.empty(0, self.embedder.dim)
        return torch.frombuffer(found, dtype=torch.float32).view(-1, self.embedder.dim)

    def encode_once(self, data: Manifest, folder: Path | None, name: str, batch_size: int = 32) -> Tensor:
        """Embeddings of a data set, kept below the folder of a run if there is one."""
        if folder is None:
            return self.encode(data, batch_size)
        key = data.fingerprint()
        path = folder / "galleries" / f"{key[:24]}.safetensors"
        metadata = {"format": "similis-gallery-1", "contents": f"{name}/{key}"}
        return cached_tensors(path, lambda: {"vectors": self.encode(data, batch_size)}, metadata)["vectors"]

    def open(self, item: Any) -> Any:
        """An item as it is embedded: a vector, encoded bytes, or an image of Pillow's."""
        if not is_vector(item):
            return open_item(item)
        wanted = self.embedder.dim if self.embedder.preprocessing is not None else self.embedder.backbone.features
        if len(item) != wanted:
            raise UserError(f"a vector has {len(item)} numbers; this model takes {wanted}")
        return torch.as_tensor(item, dtype=torch.float32)

    def digest(self, opened: Any) -> str:
        """A hash of what is embedded; none of an embedding, which nothing was made from."""
        if isinstance(opened, Tensor):
            return "" if self.embedder.preprocessing is not None else digest_of(opened.numpy().tobytes())
        return item_digest(opened)

    def decode(self, data: bytes) -> Tensor:
        """Pixels (S, S, 3) of one encoded image as the network sees them."""
        return self._item_data([data]).fetch(Request(torch.zeros(1, dtype=torch.long), "eval", 0, 0))[0]

    def encode_pixels(self, pixels: Tensor) -> Tensor:
        """Embeddings (N, D) of decoded images (N, S, S, 3), in one forward."""
        images = self._item_data([]).finish(send(pixels, self.machine.chosen), channels_last=True)
        return embed(self.embedder, [(images, torch.zeros(len(images)))], count=len(images)).vectors

    def encode_features(self, features: Tensor, batch_size: int) -> Tensor:
        """Embeddings (N, D) of vectors (N, F), for a network of vectors."""
        if self.embedder.preprocessing is not None:
            raise UserError(
                "the data are vectors, and this is a network of images; give the images, or --model of vectors"
            )
        data = FeatureData(features, torch.zeros(len(features), dtype=torch.long))
        return self._forward(Loader(data, device=self.machine.chosen), len(features), batch_size)

    def _item_data(self, items: Sequence[Any]) -> ImageData:
        look = self.embedder.preprocessing
        if look is None:
            raise UserError("this model takes vectors, which have no places; give it a network of images")
        return item_data(items, look)

    def prepare(self, items: Sequence[Any]) -> tuple[Any, Tensor]:
        """Pixels (n, S, S, 3) as the network sees them, and the same normalised, (n, 3, S, S), on its device."""
        data = self._item_data([self.open(item) for item in items])
        raw = data.fetch(Request(torch.arange(len(items)), "eval", 0, 0))
        return raw.numpy(), data.finish(raw, channels_last=True).to(self.machine.chosen)

    def look_up(
        self, items: Sequence[Any], gallery: Gallery | None, batch_size: int, first: int = 0
    ) -> tuple[Tensor, list[str]]:
        """Vectors (n, D), from the gallery where it has them, and hashes of items numbered from ``first`` in errors.

        Images and embeddings may be mixed; without a gallery nothing is hashed.
        """
        look, opened = self.embedder.preprocessing, [self.open(item) for item in items]
        digests = [] if gallery is None else [self.digest(item) for item in opened]
        vectors, new = torch.empty(len(items), self.embedder.dim), []
        for place, item in enumerate(opened):
            ready = None if gallery is None else gallery.find_vector(digests[place])
            if look is not None and isinstance(item, Tensor):
                ready = item
            if ready is None:
                new.append(place)
            else:
                vectors[place] = ready
        if new:
            inputs = [opened[place] for place in new]
            data = (
                FeatureData(torch.stack(inputs), torch.zeros(len(new), dtype=torch.long))
                if look is None
                else item_data(inputs, look, [item_name(items[place], first + place) for place in new])
            )
            loader = Loader(data, channels_last=look is not None, device=self.machine.chosen)
            vectors[new] = self._forward(loader, len(new), batch_size)
        return vectors, digests

    def _forward(self, loader: Loader, count: int, batch_size: int) -> Tensor:
        return embed(self.embedder, loader.ordered(torch.arange(count), batch_size=batch_size), count=count).vectors


def item_name(item: Any, number: int) -> str:
    """What an error calls an item: its path, or its number among all."""
    return repr(str(item)) if isinstance(item, str | Path) else f"item {number}"


def is_one(items: Any) -> bool:
    """Whether this is one item, and not a collection."""
    return is_item(items) or is_vector(items)


def as_list(items: Any) -> list[Any]:
    """One item or several as a list."""
    return [items] if is_one(items) else list(check_several(items))


def is_vector(item: Any) -> bool:
    """Whether an item is a vector (D,)."""
    return isinstance(item, Tensor | np.ndarray) and item.ndim == 1


def chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    """Lists of at most ``CHUNK`` items, in order."""
    left = iter(check_several(items))
    while chunk := list(islice(left, CHUNK)):
        yield chunk


def check_several(items: Any) -> Iterable[Any]:
    """Items as they are given; what cannot be gone through raises an error."""
    if not isinstance(items, Iterable) or (isinstance(items, Tensor | np.ndarray) and not items.ndim):
        given = repr(items) if isinstance(items, int | float | None) else f"a {type(items).__name__}"
        raise UserError(f"the items are {given}; give {KINDS}, or several of these")
    return items


def ready_vectors(data: Manifest, model_hash: str) -> Tensor:
    """The vectors of a data set that says they were made by this model; others raise an error."""
    if data.model_hash != model_hash:
        made = f"the model {data.model_hash[:12]}" if data.model_hash else "a model that they do not name"
        raise UserError(
            f"the vectors of {data.name!r} are of {made}, and this is {model_hash[:12]}: they cannot be compared; "
            "embed the images with this model (vectors that you know to be its own go in as a tensor)"
        )
    return data.vectors
