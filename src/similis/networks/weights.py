"""Weights: drawn from a generator, read from files with a report of every key, hashed for provenance."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.error import URLError

import torch
from torch import Tensor, nn

from similis.values import DataError, UserError, import_extra

Net = TypeVar("Net", bound=nn.Module)
SHOWN_KEYS = 6  # a wrong file disagrees in hundreds of keys; the first few say what kind of file it is
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm)


def part_generator(seed: int, part: str) -> torch.Generator:
    """A generator of its own for each part, so that a head starts with the same weights on every backbone.

    Example:
        >>> part_generator(1, "head").initial_seed() == part_generator(1, "backbone").initial_seed()
        False
    """
    number = int.from_bytes(hashlib.sha256(f"{seed}/{part}".encode()).digest()[:8], "big")
    return torch.Generator().manual_seed(number >> 1)  # 63 bits: manual_seed takes a signed number


def build_initialised(make: Callable[[], Net], generator: torch.Generator) -> Net:
    """The network that ``make`` builds, its weights drawn from ``generator`` and not from the global one."""
    with torch.device("meta"):
        net = make()
    net.to_empty(device="cpu")
    for name, layer in net.named_modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, NORMS):
            layer.reset_parameters()
        elif any(True for _ in layer.parameters(recurse=False)):
            raise UserError(
                f"the layer {name!r} of {type(net).__name__} has no rule for its start; add one to build_initialised"
            )
    return net


class WeightsFile(NamedTuple):
    """Tensors by name and what the file says about itself (safetensors only)."""

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]


class Loaded(NamedTuple):
    """Where weights came from: the file or address, the hash of the loaded tensors, the keys left out."""

    origin: str
    sha256: str
    dropped: tuple[str, ...]


def read_weights(path: str | Path) -> WeightsFile:
    """Tensors of a ``.safetensors`` file, or of a ``.pth``, ``.pt`` or ``.bin`` file read without running code.

    A checkpoint that wraps its tensors under ``state_dict`` or ``model`` is unwrapped, and so is the
    prefix ``module.`` that data-parallel training leaves on every key.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no weights file {str(path)!r}; give the path of a .safetensors or .pth file")
    if path.suffix == ".safetensors":
        return read_safetensors(path)
    if path.suffix not in {".pth", ".pt", ".bin"}:
        raise UserError(f"{path.name!r} is no weights file; allowed are .safetensors, .pth, .pt and .bin")
    content = torch.load(path, map_location="cpu", weights_only=True)
    for wrapper in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise DataError(f"{path.name} holds something else than named tensors; save it as model.state_dict()")
    if content and all(key.startswith("module.") for key in content):
        content = {key.removeprefix("module."): value for key, value in content.items()}
    return WeightsFile(content, {})


def read_safetensors(path: Path) -> WeightsFile:
    """Tensors and metadata of a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return WeightsFile({key: file.get_tensor(key) for key in file.keys()}, dict(file.metadata() or {}))  # noqa: SIM118
    except SafetensorError as error:
        raise DataError(f"{path.name} cannot be read as safetensors ({error}); fetch or write it again") from error


def fetch_weights(url: str, sha256: str = "") -> dict[str, Tensor]:
    """Tensors from an address, kept in torch's own cache; checked by their hash, or its start in the file's name."""
    kept = f"{Path(url).stem.partition('-')[0]}-{sha256}{Path(url).suffix}" if sha256 else None
    try:
        return torch.hub.load_state_dict_from_url(
            url, map_location="cpu", progress=False, check_hash=True, file_name=kept, weights_only=True
        )
    except (URLError, OSError, RuntimeError) as error:
        known = f" with the SHA-256 {sha256}" if sha256 else ""
        raise DataError(
            f"the weights at {url} could not be fetched ({error}); fetch the file{known} elsewhere and give its path: "
            "weights=PATH (--set model.weights=PATH)"
        ) from error


def load_weights(net: nn.Module, tensors: Mapping[str, Tensor], *, origin: str, droppable: tuple[str, ...]) -> Loaded:
    """Load every tensor of ``net`` from ``tensors``; anything missing, left over or misshapen is an error.

    ``droppable`` are first parts of keys that a network without its classifier has no place for.
    """
    wanted, tensors = net.state_dict(), resize_positions(net, tensors)
    dropped = tuple(sorted(k for k in tensors if k not in wanted and k.partition(".")[0] in droppable))
    extra = sorted(set(tensors) - set(wanted) - set(dropped))
    # Counters of batches came to PyTorch later than some of the files; a fresh zero means the same.
    missing = sorted(k for k in set(wanted) - set(tensors) if not k.endswith("num_batches_tracked"))
    state = {k: v[0] if v.shape == (1, *wanted[k].shape) else v for k, v in tensors.items() if k in wanted}
    misshapen = [
        f"{k} is {tuple(v.shape)}, not {tuple(wanted[k].shape)}" for k, v in state.items() if v.shape != wanted[k].shape
    ]
    problems = [
        f"{len(keys)} {what}: {', '.join(keys[:SHOWN_KEYS])}{', ...' if len(keys) > SHOWN_KEYS else ''}"
        for what, keys in (("missing", missing), ("unknown", extra), ("of another shape", misshapen))
        if keys
    ]
    if problems:
        raise DataError(
            f"{origin} does not fit this network: {'; '.join(problems)}. Give weights of this network and image size"
        )
    net.load_state_dict(state, strict=False)
    return Loaded(origin, weights_hash(net), dropped)


def resize_positions(net: nn.Module, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Tensors whose learned positions fit the grid of a network that is built for another image size."""
    own, saved = getattr(net, "pos_embed", None), tensors.get("pos_embed")
    grid = getattr(getattr(net, "patch_embed", None), "grid_size", None)
    if not isinstance(own, Tensor) or saved is None or grid is None or saved.ndim != 3 or saved.shape == own.shape:
        return tensors
    prefix = own.shape[1] - grid[0] * grid[1]  # tokens without a place: of the class, registers
    resized = import_extra("timm.layers").resample_abs_pos_embed(saved, list(grid), num_prefix_tokens=prefix)
    return {**tensors, "pos_embed": resized}


def weights_hash(source: nn.Module | Mapping[str, Tensor]) -> str:
    """SHA-256 of all tensors: names, types, shapes and values; memory layout and device do not count.

    Example:
        >>> import torch
        >>> weights_hash({"a": torch.zeros(2)}) == weights_hash({"a": torch.zeros(2)})
        True
    """
    tensors = source.state_dict() if isinstance(source, nn.Module) else source
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
