"""GoogLeNet with batch norm, key for key as torchvision's. Szegedy et al., CVPR 2015."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from similis.model.backbone import Backbone, Setting, checked_size, load_into, register_backbone
from similis.model.initial import initialised
from similis.values import Preprocessing

URL = "https://download.pytorch.org/models/googlenet-1378be20.pth"
CLASSIFIERS = ("fc", "aux1", "aux2")  # in published files; this network ends before them

# Channels of each block: 1x1; 3x3 reduce, 3x3; second 3x3 reduce, second 3x3; projection behind the pool.
BLOCKS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
POOL_BEFORE = {"4a": 3, "5a": 2}  # block -> side of the max pool of stride 2 in front of it


class Unit(nn.Module):
    """Convolution without bias, batch norm, ReLU."""

    def __init__(self, ins: int, outs: int, side: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(ins, outs, side, stride=stride, padding=side // 2, bias=False)
        self.bn = nn.BatchNorm2d(outs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        """(B, ins, H, W) -> (B, outs, H/stride, W/stride)."""
        return functional.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    """Four branches side by side, joined along the channels."""

    def __init__(self, ins: int, channels: tuple[int, ...]) -> None:
        super().__init__()
        single, reduce3, full3, reduce5, full5, projection = channels
        self.branch1 = Unit(ins, single, 1)
        self.branch2 = nn.Sequential(Unit(ins, reduce3, 1), Unit(reduce3, full3, 3))
        # The paper's 5x5 is a 3x3 in the published weights, and so it is here.
        self.branch3 = nn.Sequential(Unit(ins, reduce5, 1), Unit(reduce5, full5, 3))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=True), Unit(ins, projection, 1))

    def forward(self, x: Tensor) -> Tensor:
        """(B, ins, H, W) -> (B, sum of the branches, H, W)."""
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class GoogLeNet(Backbone):
    """The network up to its last inception block: no auxiliary heads, no pooling, no classifier."""

    def __init__(self, preprocessing: Preprocessing) -> None:
        super().__init__(1024, preprocessing)
        self.conv1 = Unit(3, 64, 7, stride=2)
        self.conv2 = Unit(64, 64, 1)
        self.conv3 = Unit(64, 192, 3)
        ins = 192
        for name, channels in BLOCKS.items():
            self.add_module(f"inception{name}", Inception(ins, channels))
            ins = channels[0] + channels[2] + channels[4] + channels[5]

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, 1024, H/32, W/32)."""
        x = halved(self.conv1(images), 3)
        x = halved(self.conv3(self.conv2(x)), 3)
        for name in BLOCKS:
            if name in POOL_BEFORE:
                x = halved(x, POOL_BEFORE[name])
            x = getattr(self, f"inception{name}")(x)
        return x


def halved(x: Tensor, side: int) -> Tensor:
    """Max pool of stride 2; a map of odd size keeps its border."""
    return functional.max_pool2d(x, side, stride=2, ceil_mode=True)


@register_backbone(paper="Szegedy et al.: Going Deeper with Convolutions, CVPR 2015")
def googlenet(setting: Setting) -> Backbone:
    """GoogLeNet as the thesis used it: features before pooling, 1024 channels, 5.6 million weights.

    torchvision's weights want pixels as (x - 0.5) / 0.5; torchvision reaches that by converting images
    normalised with ImageNet's mean and deviation inside the network, here the preprocessing states it.

    Args:
        setting: weights ``pretrained`` (torchvision's), a file with torchvision's keys, or None.

    Shapes: (B, 3, H, W) -> (B, 1024, H/32, W/32), for 224 pixels 7 x 7.

    When to use: to compare with papers that used it; newer networks of timm are better and faster.

    Example:
        >>> import torch
        >>> net = googlenet(Setting("googlenet", None, None, torch.Generator().manual_seed(0)))
        >>> net.eval()(torch.zeros(1, 3, 64, 64)).shape
        torch.Size([1, 1024, 2, 2])
    """
    size = checked_size(setting.image_size, 224, 32)
    half = (0.5, 0.5, 0.5)
    look = Preprocessing(size=size, resize=round(size * 256 / 224), mean=half, std=half)
    net = initialised(lambda: GoogLeNet(look), setting.generator)
    load_into(net, setting, url=URL, droppable=CLASSIFIERS)
    return net
