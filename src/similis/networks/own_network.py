"""A network of your own in a run: a module that was handed over in Python, known by its identity while it is used."""

from __future__ import annotations

import copy
import hashlib

import torch
from torch import Tensor, nn

from similis.introspection import code_identity
from similis.networks.backbone import HANDED_OVER, Backbone, Setting
from similis.values import Preprocessing, UserError

PLAIN = (bool, int, float, str, tuple, type(None))
SIZE = 224  # pixels of a side, where the specification names none
_known: dict[str, nn.Module] = {}


class OwnBackbone(Backbone):
    """A module of the user's as a backbone: images (B, 3, H, W) to a map (B, F, h, w) or to vectors (B, F)."""

    def __init__(self, net: nn.Module, size: int) -> None:
        mode = net.training
        with torch.no_grad():
            made = net.eval()(torch.zeros(2, 3, size, size))
        net.train(mode)
        if not isinstance(made, Tensor) or made.ndim not in (2, 4) or len(made) != 2:
            shape = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
            raise UserError(f"the network made {shape} of images (2, 3, {size}, {size}); return (B, D) or (B, C, H, W)")
        super().__init__(made.shape[1], Preprocessing(size=size, resize=round(size * 8 / 7)))
        self.net = net

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, F, h, w) or (B, F)."""
        features: Tensor = self.net(images)
        return features


def keep_network(module: nn.Module, name: str | None = None) -> str:
    """Make a network known to this process; its name in a specification.

    Args:
        module: images to vectors or maps; runs begin with a copy of its weights.
        name: of code and weights together; None to hash both.
    """
    if not isinstance(module, nn.Module):
        raise UserError(f"network is {module!r}; give an nn.Module that is built, such as Network()")
    identity = name or f"{type(module).__name__}-{hash_network(module)}"
    _known[f"{HANDED_OVER}{identity}"] = module
    return f"{HANDED_OVER}{identity}"


def hash_network(module: nn.Module) -> str:
    """Hash of the code of a module and its parts, of their plain attributes, and of its weights."""
    digest = hashlib.sha256()
    for kind in sorted({type(part) for part in module.modules()}, key=lambda kind: kind.__qualname__):
        digest.update(code_identity(kind, "network").encode())
    for name, part in module.named_modules():
        plain = {key: value for key, value in sorted(vars(part).items()) if isinstance(value, PLAIN)}
        plain.pop("training")
        digest.update(f"\0{name} {type(part).__qualname__} {plain}".encode())
    for key, value in sorted(module.state_dict().items()):
        digest.update(f"\0{key} {tuple(value.shape)} ".encode() + value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:12]


def build_own(setting: Setting) -> OwnBackbone:
    """The network that was made known under the setting's name, with weights of its own."""
    if setting.name not in _known:
        raise UserError(
            f"the network {setting.name} was handed over in Python and is not known here; pass it again: "
            "similis.load(folder, network=module), or similis.train(spec, network=module)"
        )
    return OwnBackbone(copy.deepcopy(_known[setting.name]).cpu(), setting.image_size or SIZE)
