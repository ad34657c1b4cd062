"""Tensors in safetensors files that appear whole.

A reader sees the old file or the new one, never a half; nothing in it is executed on loading. A file states what it
holds and a checksum, so that a damaged or exchanged one is noticed and never used.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from similis.training.files import DamagedError, damage_error, replace_file
from similis.values import DataError

KEY = "similis"  # of all metadata, as JSON
logger = logging.getLogger(__name__)


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], *, previous: Path | None = None
) -> None:
    """Write a safetensors file atomically, with a checksum of its tensors.

    ``contents`` among the metadata names what it is, for :func:`read_tensors`; ``previous`` keeps the file there now.
    """
    own = {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}
    described = json.dumps({**metadata, "checksum": checksum(own, metadata)}, sort_keys=True)
    # under one key: several would come in a random order, and equal contents would not be equal files
    replace_file(path, lambda beside: save_file(own, beside, {KEY: described}), previous=previous)


def read_tensors(path: Path, contents: str | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file; a damaged file, or other ``contents``, raises a DamagedError."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            described: dict[str, str] = json.loads((file.metadata() or {}).get(KEY, "{}"))
    except (OSError, SafetensorError, ValueError) as error:
        raise damage_error(path, error) from error
    if described.pop("checksum", None) != checksum(tensors, described):
        raise damage_error(path, "its checksum is not that of its contents")
    if contents is not None and described.get("contents") != contents:
        raise damage_error(path, f"it holds {described.get('contents')}, not {contents}")
    return tensors, described


def checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """CRC-32 over metadata, and over names, types, shapes and bytes of tensors in the memory of the processor."""
    total = zlib.crc32(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name]
        total = zlib.crc32(f"{name} {value.dtype} {tuple(value.shape)}".encode(), total)
        total = zlib.crc32(value.reshape(-1).view(torch.uint8).numpy().data, total)
    return f"{total:08x}"


def cached_tensors(path: Path, make: Callable[[], dict[str, Tensor]], metadata: Mapping[str, str]) -> dict[str, Tensor]:
    """Tensors from a file, or else made and kept there; a file that is damaged or cannot be written only costs time."""
    if path.exists():
        try:
            return read_tensors(path, metadata.get("contents"))[0]
        except DamagedError as error:
            logger.warning("computed again: %s", error)
    tensors = make()
    try:
        save_tensors(path, tensors, metadata)
    except DataError as error:
        logger.warning("not kept for the next time: %s", error)
    return tensors


def save_model(path: Path, model: nn.Module, metadata: Mapping[str, str]) -> None:
    """Write the weights of a model."""
    save_tensors(path, {f"model/{key}": value for key, value in model.state_dict().items()}, metadata)


def load_model(model: nn.Module, path: Path, contents: str) -> None:
    """Put the weights that :func:`save_model` wrote into a model."""
    tensors, _ = read_tensors(path, contents)
    try:
        model.load_state_dict({key.partition("/")[2]: value for key, value in tensors.items()})
    except RuntimeError as error:
        raise damage_error(path, f"its weights do not fit the model as it is now: {error}") from error
