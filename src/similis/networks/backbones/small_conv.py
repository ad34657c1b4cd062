"""A small convolutional network for training from scratch on images of 32 to 64 pixels."""

from __future__ import annotations

from itertools import chain, repeat

from torch import Tensor, nn

from similis.networks.backbone import Backbone, Setting, load_into, register_backbone, resolve_image_size
from similis.networks.weights import build_initialised
from similis.registry import check_known
from similis.values import Preprocessing, UserError

WIDTHS = {"slim": (16, 32, 64, 128), "narrow": (32, 64, 128, 256), "wide": (64, 128, 256, 512)}
NORMS = ("batch", "group")
GROUPS = 8


class SmallConv(Backbone):
    """Four stages of 3x3 convolutions with norm and ReLU; every stage but the first halves the map."""

    def __init__(self, channels: tuple[int, ...], norm: str, preprocessing: Preprocessing, depth: int = 2) -> None:
        super().__init__(channels[-1], preprocessing)
        ins = (3, *channels[:-1])
        self.stages = nn.Sequential(
            *(stage(i, o, 1 if n == 0 else 2, norm, depth) for n, (i, o) in enumerate(zip(ins, channels, strict=True)))
        )

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, F, H/8, W/8)."""
        features: Tensor = self.stages(images)
        return features


def stage(ins: int, outs: int, stride: int, norm: str, depth: int) -> nn.Sequential:
    """Convolutions, the first with the stride; no bias, which the norm behind would take out again."""
    layers: list[nn.Module] = []
    for channels, step in chain([(ins, stride)], repeat((outs, 1), depth - 1)):
        layers.append(nn.Conv2d(channels, outs, 3, stride=step, padding=1, bias=False))
        layers.append(nn.BatchNorm2d(outs) if norm == "batch" else nn.GroupNorm(GROUPS, outs))
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


@register_backbone(paper="none: after the plain networks of Simonyan and Zisserman, ICLR 2015")
def small_conv(setting: Setting, *, width: str = "narrow", depth: int = 2, norm: str = "batch") -> Backbone:
    """Four stages of two 3x3 convolutions, 1.2 (narrow) or 4.7 (wide) million weights.

    Args:
        setting: weights None or a file; image size 32 by default, 8 at least.
        width: ``slim`` (16 to 128 channels), ``narrow`` (32 to 256) or ``wide`` (64 to 512).
        depth: convolutions of a stage.
        norm: ``batch``, or ``group`` (8 groups) where a sample must not depend on its batch.

    Shapes: (B, 3, H, W) -> (B, 128, 256 or 512, H/8, W/8).

    When to use: drawings, characters and thumbnails without pretrained weights; tests that train.

    Example:
        >>> import torch
        >>> net = small_conv(Setting("small_conv", None, 32, torch.Generator().manual_seed(0)))
        >>> net(torch.zeros(1, 3, 32, 32)).shape
        torch.Size([1, 256, 4, 4])
    """
    check_known("width of small_conv", width, WIDTHS)
    check_known("norm of small_conv", norm, NORMS)
    if depth < 1:
        raise UserError(f"depth of small_conv is {depth}; a stage has at least one convolution")
    size = resolve_image_size(setting.image_size, 32, 8)
    half = (0.5, 0.5, 0.5)
    # Thumbnails are seen whole: no margin is resized into view and cropped away again.
    look = Preprocessing(size=size, resize=size, mean=half, std=half)
    net = build_initialised(lambda: SmallConv(WIDTHS[width], norm, look, depth), setting.generator)
    load_into(net, setting, url=None)
    return net
