"""Any network of timm's as a backbone: its weights, its preprocessing, its map of features."""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from torch import Tensor, nn

from similis.networks.backbone import PRETRAINED, ZOO, Backbone, Setting, register_backbone
from similis.networks.weights import Loaded, load_weights, read_weights, weights_hash
from similis.registry import check_known
from similis.values import DataError, Preprocessing, UserError, import_extra

TOKENS = ("patches", "class")
INTERPOLATIONS = ("bilinear", "bicubic")
HUB_FILES = ("model.safetensors", "open_clip_model.safetensors", "pytorch_model.bin")
PATIENCE = 5.0  # seconds for an answer of the Hub; its client alone would try again for minutes
# What a safetensors file may say about its input in its metadata: RGB, (x*255-127)/128
STATED_INPUT = re.compile(r"RGB, \(x\*255-([0-9.]+)\)/([0-9.]+)")


class Zoo(Backbone):
    """A network of timm's without its classifier; every output layout becomes a map (B, F, h, w).

    With ``own_pooling`` tokens stay tokens (B, N, F), because the network's own pooling may want the class token.
    """

    def __init__(self, net: Any, preprocessing: Preprocessing, tokens: str, own_pooling: bool = False) -> None:
        super().__init__(int(net.head_hidden_size if own_pooling else net.num_features), preprocessing)
        self.net = net
        self.tokens = tokens
        self.own_pooling = own_pooling
        self.prefix = int(getattr(net, "num_prefix_tokens", 0) or 0)
        self.channels_last_output = getattr(net, "output_fmt", "NCHW") == "NHWC"

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, F, h, w)."""
        out = self.net.forward_features(images)
        if not isinstance(out, Tensor) or out.ndim not in (3, 4):
            raise UserError(f"{type(self.net).__name__} returns no map and no tokens; choose another backbone")
        if out.ndim == 4:
            return out.permute(0, 3, 1, 2) if self.channels_last_output else out
        if self.own_pooling:
            return out
        if self.tokens == "class":
            return out[:, 0, :, None, None]
        return grid_of(out[:, self.prefix :], images.shape[-2] / images.shape[-1])

    def pool(self, features: Tensor) -> Tensor:
        """What timm puts before its classifier: pooling or a class token, and any norm or layer behind it."""
        own = features.permute(0, 2, 3, 1) if features.ndim == 4 and self.channels_last_output else features
        pooled: Tensor = self.net.forward_head(own, pre_logits=True)
        return pooled

    def layers(self) -> list[list[nn.Parameter]]:
        """The groups of timm's own layer-wise decay, from the stem on."""
        from timm.models import group_parameters

        named = dict(self.net.named_parameters())
        groups = group_parameters(self.net, self.net.group_matcher(coarse=False))
        return [[named[name] for name in names] for _, names in sorted(groups.items())]


def grid_of(patches: Tensor, ratio: float) -> Tensor:
    """Tokens (B, N, F) of patches in reading order as a map (B, F, h, w) with h / w nearest to ``ratio``."""
    number = patches.shape[1]
    height = max(round(math.sqrt(number * ratio)), 1)
    if number % height:
        height = 1  # tokens that lie on no grid are still a set, which is all that pooling needs
    return patches.transpose(1, 2).reshape(len(patches), -1, height, number // height)


@register_backbone(name=ZOO, paper="Wightman: PyTorch Image Models, 2019")
def zoo(setting: Setting, *, tokens: str = "patches", drop_path: float = 0.0) -> Backbone:
    """Any network of timm's by name, as ``timm:NAME`` or plainly.

    Transformers return tokens. By default those of the patches are laid out as the map they came from,
    so that pooling means the same as for a convolutional network, and class and register tokens are
    left out; with ``tokens="class"`` the class token alone is a map of 1 x 1.

    Args:
        setting: weights ``pretrained`` (from the Hugging Face Hub), a file with timm's keys, or None.
        tokens: ``patches`` or ``class``; of no effect on networks that return a map.
        drop_path: rate of stochastic depth in training, where the network knows it.

    Shapes: (B, 3, H, W) -> (B, F, h, w).

    When to use: always, unless a comparison asks for an older network.

    Example:
        >>> import torch
        >>> net = zoo(Setting("test_vit", None, None, torch.Generator().manual_seed(0)))
        >>> net.eval()(torch.zeros(1, 3, 160, 160)).shape
        torch.Size([1, 64, 10, 10])
    """
    check_known("choice of tokens", tokens, TOKENS)
    net = create_network(setting, drop_path)
    if tokens == "class" and not getattr(net, "num_prefix_tokens", 0):
        raise UserError(f"{setting.name} has no class token; leave the option tokens at 'patches'")
    look = preprocessing_of(net, setting.image_size)
    loaded = None
    if setting.weights == PRETRAINED:
        loaded = Loaded(f"timm:{net.pretrained_cfg.get('hf_hub_id') or setting.name}", weights_hash(net), ())
    elif setting.weights is not None:
        file = read_weights(setting.weights)
        loaded = load_weights(net, file.tensors, origin=setting.weights, droppable=classifier_keys(net))
        look = with_stated_input(look, file.metadata)
    backbone = Zoo(net, look, tokens, setting.own_pooling)
    backbone.loaded = loaded
    leave_out_unused(backbone, look.size)
    return backbone


def create_network(setting: Setting, drop_path: float) -> Any:
    """The network of timm's. Its own start draws from the global generator, which is seeded and put back."""
    timm = import_extra("timm")
    arguments: dict[str, Any] = {"drop_path_rate": drop_path} if drop_path else {}
    try:
        published = timm.get_pretrained_cfg(setting.name)
    except RuntimeError as error:
        raise UserError(f"{error} Known are: {', '.join(timm.list_pretrained(arch_of(setting.name)))}") from error
    # Networks with learned positions are built for one size; all others take any.
    if setting.image_size and published is not None and published.fixed_input_size:
        arguments["img_size"] = setting.image_size
    pretrained = setting.weights == PRETRAINED
    if pretrained:
        check_published(setting.name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=setting.generator)))
        try:
            return timm.create_model(setting.name, pretrained=pretrained, num_classes=0, **arguments)
        except TypeError as error:
            raise UserError(f"{setting.name} does not take {sorted(arguments)} ({error}); leave them out") from error
        except (OSError, RuntimeError) as error:
            if not pretrained:
                raise
            raise missing_weights(setting.name, error) from error


def check_published(name: str) -> None:
    """Raise at once where published weights are neither in the cache of the Hub nor within reach."""
    try:
        published = import_extra("timm").get_pretrained_cfg(name)
    except RuntimeError:  # an unknown name, of which building the network tells more
        return
    hub = getattr(published, "hf_hub_id", None)
    if not hub:
        return
    from huggingface_hub import constants, try_to_load_from_cache

    if any(isinstance(try_to_load_from_cache(hub, file), str) for file in HUB_FILES):
        return
    if constants.HF_HUB_OFFLINE:
        raise missing_weights(name, "they are not in the cache, and HF_HUB_OFFLINE is set")
    address = urlsplit(constants.ENDPOINT)
    if getproxies().get(address.scheme):
        return  # reached another way, which only a download tries
    try:
        port = address.port or (443 if address.scheme == "https" else 80)
        socket.create_connection((address.hostname or "", port), timeout=PATIENCE).close()
    except OSError as error:
        why = f"they are not in the cache, and {address.hostname} cannot be reached: {error.strerror or error}"
        raise missing_weights(name, why) from error


def missing_weights(name: str, why: object) -> DataError:
    """The error about published weights that cannot be had."""
    return DataError(
        f"timm could not give the weights of {name} ({why}); fetch them elsewhere and give the file: weights=PATH "
        "(--weights PATH), or start without: weights=None (--weights none)"
    )


def arch_of(name: str) -> str:
    """The name without the tag of its weights, as a pattern that finds all of its tags."""
    return f"{name.partition('.')[0]}.*"


def preprocessing_of(net: Any, image_size: int | None) -> Preprocessing:
    """The data configuration of timm as ours; another image size keeps the share of the picture that is seen."""
    from timm.data.config import resolve_model_data_config

    resolve: Any = resolve_model_data_config
    config = resolve(net)
    size = image_size or int(config["input_size"][-1])
    interpolation = config["interpolation"]
    return Preprocessing(
        size=size,
        resize=math.floor(size / config["crop_pct"]),
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        interpolation=interpolation if interpolation in INTERPOLATIONS else "bicubic",
    )


def with_stated_input(look: Preprocessing, metadata: Mapping[str, str]) -> Preprocessing:
    """The preprocessing with the mean and deviation that the file itself states, if it does.

    Example:
        >>> with_stated_input(Preprocessing(), {"input": "RGB, (x*255-51)/255"}).mean
        (0.2, 0.2, 0.2)
    """
    found = STATED_INPUT.match(metadata.get("input", ""))
    if found is None:
        return look
    mean, std = (float(number) / 255 for number in found.groups())
    return replace(look, mean=(mean, mean, mean), std=(std, std, std))


def classifier_keys(net: Any) -> tuple[str, ...]:
    """First parts of the keys of the classifier, which this network was built without."""
    names = net.pretrained_cfg.get("classifier") or ()
    return tuple({name.partition(".")[0] for name in ([names] if isinstance(names, str) else names)})


def leave_out_unused(backbone: Zoo, size: int) -> None:
    """Take parameters that the map does not depend on (norms behind timm's own pooling) out of training.

    An optimiser would only decay them, and distributed training waits for gradients that never come.
    """
    mode = backbone.training
    parameters = [p for p in backbone.parameters() if p.requires_grad]  # fixed positions stay fixed
    with torch.enable_grad():  # also for a caller who only embeds, under no_grad
        out = backbone.eval()(torch.zeros(1, 3, size, size))
        out = backbone.pool(out) if backbone.own_pooling else out
        used = torch.autograd.grad(out.sum(), parameters, allow_unused=True)
    if out.shape[1] != backbone.features:
        raise UserError(f"{type(backbone.net).__name__} promises {backbone.features} channels, gives {out.shape[1]}")
    for parameter, gradient in zip(parameters, used, strict=True):
        parameter.requires_grad_(gradient is not None)
    backbone.train(mode)
