"""BN-Inception, key for key as in the published Caffe port. Ioffe and Szegedy, ICML 2015."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from similis.networks.backbone import Backbone, Setting, load_into, register_backbone, resolve_image_size
from similis.networks.weights import build_initialised
from similis.values import Preprocessing

URL = "http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth"
SHA256 = "52deb473314542a5c2f87e9e6f26f4ca42fe863d15f986414dbae8c2dfdd2353"


class Block(NamedTuple):
    """Channels of one block; without ``single`` and ``projection`` it halves the map instead."""

    single: int
    reduce: int
    full: int
    double_reduce: int
    double: int
    projection: int
    pool: str = "average"

    @property
    def stride(self) -> int:
        """2 for the two blocks that halve the map."""
        return 1 if self.single else 2


BLOCKS = {
    "3a": Block(64, 64, 64, 64, 96, 32),
    "3b": Block(64, 64, 96, 64, 96, 64),
    "3c": Block(0, 128, 160, 64, 96, 0, "max"),
    "4a": Block(224, 64, 96, 96, 128, 128),
    "4b": Block(192, 96, 128, 96, 128, 128),
    "4c": Block(160, 128, 160, 128, 160, 128),
    "4d": Block(96, 128, 192, 160, 192, 128),
    "4e": Block(0, 128, 192, 192, 256, 0, "max"),
    "5a": Block(352, 192, 320, 160, 224, 128),
    "5b": Block(352, 192, 320, 192, 224, 128, "max"),
}


class BNInception(Backbone):
    """The network up to its last block; its layers lie flat in it, as their published names require."""

    def __init__(self, preprocessing: Preprocessing) -> None:
        super().__init__(1024, preprocessing)
        self._add("conv1_7x7_s2", 3, 64, 7, 2)
        self._add("conv2_3x3_reduce", 64, 64, 1)
        self._add("conv2_3x3", 64, 192, 3)
        ins = 192
        for name, block in BLOCKS.items():
            ins = self._add_block(f"inception_{name}", ins, block)

    def _add(self, name: str, ins: int, outs: int, side: int, stride: int = 1) -> None:
        self.add_module(name, nn.Conv2d(ins, outs, side, stride=stride, padding=side // 2))
        self.add_module(f"{name}_bn", nn.BatchNorm2d(outs))

    def _add_block(self, name: str, ins: int, block: Block) -> int:
        """Add the layers of a block; returns its number of channels."""
        if block.single:
            self._add(f"{name}_1x1", ins, block.single, 1)
        self._add(f"{name}_3x3_reduce", ins, block.reduce, 1)
        self._add(f"{name}_3x3", block.reduce, block.full, 3, block.stride)
        self._add(f"{name}_double_3x3_reduce", ins, block.double_reduce, 1)
        self._add(f"{name}_double_3x3_1", block.double_reduce, block.double, 3)
        self._add(f"{name}_double_3x3_2", block.double, block.double, 3, block.stride)
        if block.projection:
            self._add(f"{name}_pool_proj", ins, block.projection, 1)
        return block.single + block.full + block.double + (block.projection or ins)

    def _unit(self, x: Tensor, *names: str) -> Tensor:
        """Convolution, batch norm, ReLU for each name in turn."""
        for name in names:
            x = functional.relu(getattr(self, f"{name}_bn")(getattr(self, name)(x)), inplace=True)
        return x

    def _block(self, x: Tensor, name: str, block: Block) -> Tensor:
        branches = [self._unit(x, f"{name}_1x1")] if block.single else []
        branches.append(self._unit(x, f"{name}_3x3_reduce", f"{name}_3x3"))
        double = f"{name}_double_3x3"
        branches.append(self._unit(x, f"{double}_reduce", f"{double}_1", f"{double}_2"))
        side = pool_branch(x, block)
        branches.append(self._unit(side, f"{name}_pool_proj") if block.projection else side)
        return torch.cat(branches, 1)

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, 1024, H/32, W/32)."""
        x = functional.max_pool2d(self._unit(images, "conv1_7x7_s2"), 3, stride=2, ceil_mode=True)
        x = functional.max_pool2d(self._unit(x, "conv2_3x3_reduce", "conv2_3x3"), 3, stride=2, ceil_mode=True)
        for name, block in BLOCKS.items():
            x = self._block(x, f"inception_{name}", block)
        return x


def pool_branch(x: Tensor, block: Block) -> Tensor:
    """The pooled branch: 3x3, of the same size, or half of it (without padding) in a halving block."""
    if block.stride == 2:
        return functional.max_pool2d(x, 3, stride=2, ceil_mode=True)
    if block.pool == "max":
        return functional.max_pool2d(x, 3, stride=1, padding=1, ceil_mode=True)
    return functional.avg_pool2d(x, 3, stride=1, padding=1, ceil_mode=True, count_include_pad=True)


@register_backbone(paper="Ioffe, Szegedy: Batch Normalization, ICML 2015")
def bn_inception(setting: Setting) -> Backbone:
    """BN-Inception, the classic network of metric learning: 1024 channels, 10.3 million weights.

    It sees blue, green, red from 0 to 255 with (104, 117, 128) subtracted, as Caffe did.

    Args:
        setting: weights ``pretrained`` (the port of the Caffe weights), a file with its keys, or None.

    Shapes: (B, 3, H, W) -> (B, 1024, H/32, W/32), for 224 pixels 7 x 7.

    When to use: to compare with papers that used it; most of them did.

    Example:
        >>> import torch
        >>> net = bn_inception(Setting("bn_inception", None, None, torch.Generator().manual_seed(0)))
        >>> net.preprocessing.channels, net.eval()(torch.zeros(1, 3, 64, 64)).shape
        ('bgr', torch.Size([1, 1024, 2, 2]))
    """
    size = resolve_image_size(setting.image_size, 224, 32)
    look = Preprocessing(
        size=size,
        resize=round(size * 256 / 224),
        mean=(104.0, 117.0, 128.0),
        std=(1.0, 1.0, 1.0),
        channels="bgr",
        top=255.0,
    )
    net = build_initialised(lambda: BNInception(look), setting.generator)
    load_into(net, setting, url=URL, sha256=SHA256, droppable=("last_linear",))
    return net
