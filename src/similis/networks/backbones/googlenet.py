"""GoogLeNet with batch norm, as torchvision has it. Szegedy et al., CVPR 2015."""

from __future__ import annotations

from torch import Tensor

from similis.networks.backbone import Backbone, Setting, load_into, register_backbone, resolve_image_size
from similis.networks.weights import build_initialised
from similis.values import Preprocessing, import_extra

URL = "https://download.pytorch.org/models/googlenet-1378be20.pth"
HEADS = ("avgpool", "dropout", "fc", "aux1", "aux2")  # this network ends before them


class GoogLeNet(Backbone):
    """torchvision's network up to its last inception block: no auxiliary heads, no pooling, no classifier."""

    def __init__(self, preprocessing: Preprocessing) -> None:
        super().__init__(1024, preprocessing)
        net = import_extra("torchvision.models").googlenet(aux_logits=False, init_weights=False)
        for name, layer in net.named_children():
            if name not in HEADS:
                self.add_module(name, layer)

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, 1024, H/32, W/32)."""
        for layer in self.children():
            images = layer(images)
        return images


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
    size = resolve_image_size(setting.image_size, 224, 32)
    half = (0.5, 0.5, 0.5)
    look = Preprocessing(size=size, resize=round(size * 256 / 224), mean=half, std=half)
    net = build_initialised(lambda: GoogLeNet(look), setting.generator)
    load_into(net, setting, url=URL, droppable=HEADS)
    return net
