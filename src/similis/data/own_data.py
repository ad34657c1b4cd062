"""Data and transforms of your own in a run: any map-style data set, any function of an image."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from similis.data.content import digest_of
from similis.data.images import Pixels
from similis.data.items import as_bytes, item_digest, open_item
from similis.data.manifest import Manifest, from_columns
from similis.introspection import code_identity
from similis.labels import encode_labels
from similis.values import UserError, import_extra

OWN = "own"  # policy of a transform that was handed over, and source of such data
_transforms: dict[str, Callable[[Any], Any]] = {}


@dataclass(frozen=True, eq=False)
class DatasetSource:
    """Images of a map-style data set; ``image`` is their place in an item."""

    dataset: Any
    image: int | str

    def read(self, id: int, path: str) -> Any:  # noqa: ARG002
        """The image of an item, encoded or as Pillow has it."""
        return open_item(self.dataset[id][self.image])

    def digests(self, ids: Sequence[int], paths: Sequence[str], *, verify: bool) -> list[str]:  # noqa: ARG002
        """The hash of every image."""
        return [item_digest(self.read(number, "")) for number in ids]


def open_dataset(dataset: Any, name: str | None = None) -> Manifest:
    """The manifest of a data set that was handed over.

    Args:
        dataset: with ``len`` and items (image, label); or a ``datasets.Dataset`` of Hugging Face with an image and a
            label column. Images are paths, bytes, images of Pillow's, arrays or tensors; labels are hashable values.
        name: of its contents; None to hash every image, or to take the fingerprint of a ``datasets.Dataset``.
    """
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise UserError(f"data is {type(dataset).__name__}; give a map-style data set: __len__ and __getitem__")
    image, labels, marks = read_labels(dataset, name)
    known_as = name or getattr(dataset, "_fingerprint", None) or "hashed"
    columns: dict[str, Sequence[Any]] = {
        "id": list(range(len(labels))),
        "path": [str(row) for row in range(len(labels))],
        "label": torch.unique(encode_labels(labels), return_inverse=True)[1].tolist(),
        "class_name": [str(label) for label in labels],
        "content": marks,
    }
    return from_columns(f"{OWN}:{known_as}", columns, DatasetSource(dataset, image))


def read_labels(dataset: Any, name: str | None) -> tuple[int | str, list[Any], list[str]]:
    """Where the image of an item is, the label of every item, and the hash of its image or what stands for it."""
    features = getattr(dataset, "features", None)
    if features is not None:  # of Hugging Face: columns are read without the images
        kinds = {key: type(kind).__name__ for key, kind in features.items()}
        image = next((key for key, kind in kinds.items() if kind == "Image"), "image")
        label = next((key for key, kind in kinds.items() if kind == "ClassLabel"), "label")
        if image not in kinds or label not in kinds:
            raise UserError(f"the data set has the columns {sorted(kinds)}; it needs an image and a label column")
        names = getattr(features[label], "names", None)
        values = [names[value] if names else value for value in dataset[label]]
        mark = name or dataset._fingerprint
        return image, values, [digest_of(f"{mark} {row}".encode()) for row in range(len(values))]
    labels, marks = [], []
    for row in range(len(dataset)):
        item = dataset[row]
        if not isinstance(item, tuple | list) or len(item) < 2:
            raise UserError(f"item {row} of the data is {type(item).__name__}; give (image, label)")
        labels.append(item[1].item() if isinstance(item[1], Tensor) else item[1])
        marks.append(item_digest(open_item(item[0])) if name is None else digest_of(f"{name} {row}".encode()))
    return 0, labels, marks


def keep_transform(transform: Callable[[Any], Any], name: str | None = None) -> str:
    """Make a transform known to this process; its identity in a specification.

    Args:
        transform: image of Pillow's -> image of Pillow's, array (S, S, 3) or tensor (3, S, S), before normalisation.
        name: of it; None to hash its code and what it prints of itself.
    """
    identity = name or code_identity(transform, "transform")
    _transforms[identity] = transform
    return identity


def find_transform(identity: str | None) -> Callable[[Any], Any] | None:
    """The transform of that identity; None for none."""
    if identity is None:
        return None
    if identity not in _transforms:
        raise UserError(f"the transform {identity} was handed over in Python; pass it again: transform=...")
    return _transforms[identity]


def apply_transform(transform: Callable[[Any], Any], pixels: Pixels, size: int, draws: Sequence[float]) -> Pixels:
    """A prepared image (H, W, 3) through a transform, (S, S, 3), uint8; what it draws is decided by ``draws``."""
    with seeded(int(draws[0] * 2**53)):
        made = transform(import_extra("PIL.Image").fromarray(np.ascontiguousarray(pixels)))
    if isinstance(made, Tensor):
        made = made.detach().movedim(0, -1).numpy()
    out: Pixels = as_bytes(np.asarray(made))
    if out.shape != (size, size, 3):
        raise UserError(f"the transform made an image of shape {out.shape}; the network takes ({size}, {size}, 3)")
    return out


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Generators of PyTorch, numpy and Python set inside, and as before outside."""
    python, legacy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(legacy)
