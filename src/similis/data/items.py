"""Images as users hold them: paths, encoded bytes, images of Pillow's, arrays, tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from similis.data.content import digest_of
from similis.data.images import upright
from similis.values import DataError, UserError, import_extra

KINDS = "a path, encoded bytes, an image of Pillow's, an array (H, W, 3) or (H, W) of uint8, or a tensor (3, H, W)"


def is_item(value: Any) -> bool:
    """Whether a value is one image, and not a collection of them.

    Example:
        >>> is_item("photo.jpg"), is_item(["photo.jpg"]), is_item(np.zeros((4, 4, 3))), is_item(np.zeros((2, 4, 4, 3)))
        (True, False, True, False)
    """
    if isinstance(value, Tensor | np.ndarray):
        return value.ndim == 3 or is_grey(value)
    return isinstance(value, str | Path | bytes) or is_pillow(value)


def is_grey(value: Any) -> bool:
    """Whether an array or a tensor is a grey image (H, W); floating-point numbers (N, D) are embeddings."""
    return value.ndim == 2 and value.dtype in (np.uint8, torch.uint8)


def is_pillow(value: Any) -> bool:
    """Whether a value is an image of Pillow's; without importing it for a value that cannot be one."""
    return type(value).__module__.startswith("PIL.")


def open_item(item: Any) -> Any:
    """Encoded bytes or an image of Pillow's, which :func:`similis.data.images.prepare` takes.

    Args:
        item: one of the kinds that this module names. Numbers of arrays and tensors are whole from 0 to 255, or
            floating-point from 0 to 1.

    Example:
        >>> open_item(np.zeros((4, 6, 3), dtype=np.uint8)).size
        (6, 4)
    """
    if isinstance(item, bytes) or is_pillow(item):
        return item
    if isinstance(item, str | Path):
        return read_file(Path(item))
    if isinstance(item, Tensor):
        item = item.detach().cpu().movedim(0, -1 if item.ndim == 3 else 0).numpy()
    if isinstance(item, np.ndarray):
        return import_extra("PIL.Image").fromarray(as_bytes(item))
    raise UserError(f"an item is {type(item).__name__}; give {KINDS}")


def read_file(path: Path) -> bytes:
    """The bytes of an image file."""
    if not path.is_file():
        known = f"{path} is a folder; give its images, or similis.open_data for folders of classes"
        raise UserError(known if path.is_dir() else f"there is no file {path}; give the path of an image")
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); check its permissions") from error


def as_bytes(values: Any) -> Any:
    """An array (H, W), (H, W, 1) or (H, W, 3) as numbers from 0 to 255, grey or RGB."""
    shape = values.shape
    if not is_grey(values) and (values.ndim != 3 or shape[2] not in (1, 3)):
        raise UserError(f"an image has shape {tuple(shape)}; give an array (H, W, 3) or a tensor (3, H, W)")
    flat = values[..., 0] if shape[2:] == (1,) else values
    if flat.dtype == np.uint8:
        return np.ascontiguousarray(flat)
    if not np.issubdtype(flat.dtype, np.floating) or not ((flat >= 0) & (flat <= 1)).all():
        raise UserError(
            f"an image holds {flat.dtype} from {flat.min():g} to {flat.max():g}; give uint8 from 0 to 255, or "
            "floating-point numbers from 0 to 1, before any normalisation"
        )
    return np.rint(flat * 255).astype(np.uint8)


def item_digest(item: Any) -> str:
    """A hash of an opened item: of its bytes, or of the upright RGB pixels of an image with their shape."""
    if isinstance(item, bytes):
        return digest_of(item)
    seen = upright(item)
    return digest_of(f"{seen.mode} {seen.size} ".encode() + seen.tobytes())
