"""What a backbone is, and the table of them."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from similis.networks.pooling import gap
from similis.networks.weights import Loaded, fetch_weights, load_weights, read_weights
from similis.registry import Entry, Registry, check_known, unknown
from similis.values import MissingExtraError, Options, Preprocessing, UserError, import_extra

F = TypeVar("F", bound=Callable[..., Any])
PRETRAINED = "pretrained"
ZOO = "timm"
HANDED_OVER = "own:"  # before the name of a network that was handed over in Python


class Backbone(nn.Module):
    """A network from images (B, 3, H, W) to a map (B, F, h, w) of features before any pooling.

    Attributes:
        features: F, the number of channels of the map.
        preprocessing: what it wants done to an image; None if it takes vectors (B, F) as they are.
        loaded: where its weights came from; None if they were drawn from the seed.
    """

    def __init__(self, features: int, preprocessing: Preprocessing | None) -> None:
        super().__init__()
        self.features = features
        self.preprocessing = preprocessing
        self.loaded: Loaded | None = None

    def pool(self, features: Tensor) -> Tensor:
        """The network's own pooling, (B, F, h, w) -> (B, F): the mean, unless it was published with another."""
        return gap(features)

    def layers(self) -> list[list[nn.Parameter]]:
        """All parameters, divided from the input to the output; lower layers may learn more slowly."""
        inner: nn.Module = self
        while len(below := list(inner.children())) == 1:  # a net inside a net
            inner = below[0]
        parts = [list(part.parameters()) for part in inner.children()]
        return [part for part in parts if part]


class Setting(NamedTuple):
    """What every builder of a backbone receives beside its own options.

    ``name`` is what the user called it, without ``timm:``; ``weights`` is ``"pretrained"``, the path of
    a file, or None for weights from the generator; ``image_size`` None means the network's own;
    with ``own_pooling`` the output goes to :meth:`Backbone.pool` and to no other pooling.
    """

    name: str
    weights: str | None
    image_size: int | None
    generator: torch.Generator
    own_pooling: bool = False


# functions of a Setting and keyword-only options that return a Backbone
backbones: Registry[Entry] = Registry("backbone", "similis.networks.backbones")


def register_backbone(*, paper: str, name: str | None = None) -> Callable[[F], F]:
    """Register the decorated builder, under its own name unless ``name`` is given."""
    return backbones.register(lambda function: Entry(name or function.__name__, function, paper))


def build_backbone(setting: Setting, options: Options) -> Backbone:
    """The backbone that ``setting.name`` means: a registered one, ``timm:NAME``, or a plain name of timm's."""
    if setting.name == ZOO:
        raise UserError("'timm' is a zoo, not a network; name one of its networks, for example timm:resnet50")
    if setting.name in backbones:
        entry = backbones.get(setting.name)
    else:
        entry = backbones.get(ZOO)
        setting = setting._replace(name=zoo_name(setting.name))
    for key in options:
        check_known(f"option of the backbone {entry.name}", key, entry.options)
    backbone: Backbone = entry.function(setting, **options)
    return backbone


def zoo_name(name: str) -> str:
    """The name without ``timm:`` if timm has such a network, otherwise the error with the nearest names."""
    plain = name.removeprefix(f"{ZOO}:")
    own = [entry.name for entry in backbones if entry.name != ZOO]
    try:
        timm = import_extra("timm")
    except MissingExtraError as error:
        if name != plain:
            raise
        hint = "; names of timm's networks need the extra 'vision': pip install -e '.[vision]'"
        raise UserError(unknown("backbone", name, own) + hint) from error
    if not timm.is_model(plain):  # thousands of names: only the nearest of them belong in a message
        near = difflib.get_close_matches(plain, timm.list_models(), n=3, cutoff=0.6)
        known = unknown("backbone", plain, own + near) + backbones.failures
        raise UserError(f"{known}; any name of timm.list_models() is allowed too")
    return plain


def load_into(
    net: Backbone, setting: Setting, *, url: str | None, sha256: str = "", droppable: tuple[str, ...] = ()
) -> None:
    """Give a backbone of ours the weights that the setting asks for; nothing to do for None."""
    origin = url if setting.weights == PRETRAINED else setting.weights
    if setting.weights is None:
        return
    if origin is None:
        raise UserError(f"{setting.name} has no published weights; give weights=None or the path of a file")
    tensors = fetch_weights(origin, sha256) if setting.weights == PRETRAINED else read_weights(origin).tensors
    net.loaded = load_weights(net, tensors, origin=origin, droppable=droppable)


def resolve_image_size(size: int | None, default: int, least: int) -> int:
    """The image size, refused below what the network's strides need."""
    if size is not None and size < least:
        raise UserError(f"image_size is {size}; this backbone needs at least {least} pixels")
    return default if size is None else size
