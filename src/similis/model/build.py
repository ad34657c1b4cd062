"""A model from names and numbers."""

from __future__ import annotations

from similis.model.backbone import Setting, build_backbone
from similis.model.embedder import Embedder
from similis.model.initial import generator_of
from similis.model.pooling import POOLINGS
from similis.registry import unknown
from similis.values import Options, UserError


def build_embedder(
    *,
    backbone: str,
    weights: str | None = None,
    pooling: str = "gap+gmp",
    dim: int = 512,
    layer_norm: bool = False,
    freeze_batch_norm: bool = False,
    normalise: bool = True,
    seed: int = 0,
    image_size: int | None = None,
    options: Options | None = None,
) -> Embedder:
    """Build the model that these choices describe; the same choices give the same weights.

    Args:
        backbone: ``small_conv``, ``googlenet``, ``bn_inception``, ``identity``, or any network of timm's,
            as ``timm:NAME`` or plainly.
        weights: ``"pretrained"`` for the published ones, the path of a .safetensors or .pth file, or None.
        pooling: ``gap``, ``gmp``, ``gap+gmp`` or ``gem``.
        dim: embedding size D; 0 for the pooled features themselves.
        layer_norm: layer norm without learned scale before the head.
        freeze_batch_norm: keep the batch norms of pretrained weights as they are.
        normalise: unit vectors, as the loss declares.
        seed: of the head, and of the backbone if it has no weights.
        image_size: side of the square that the network sees; None for the network's own.
        options: the backbone's own, see its page.

    Shapes: the model maps (B, 3, H, W) -> (B, D).

    When to use: everywhere but in tests of one part.

    Example:
        >>> model = build_embedder(backbone="small_conv", dim=128, seed=1, options={"width": "wide"})
        >>> model.dim, model.preprocessing.size
        (128, 32)
    """
    if pooling not in POOLINGS:  # before any weights are fetched
        raise UserError(unknown("pooling", pooling, POOLINGS))
    if dim < 0:
        raise UserError(f"dim is {dim}; allowed are 1 and more, or 0 for no head")
    if image_size is not None and image_size < 1:
        raise UserError(f"image_size is {image_size}; give a number of pixels, or None for the backbone's own")
    setting = Setting(backbone, weights, image_size, generator_of(seed, "backbone"))
    return Embedder(
        build_backbone(setting, options),
        pooling=pooling,
        dim=dim,
        layer_norm=layer_norm,
        freeze_batch_norm=freeze_batch_norm,
        normalise=normalise,
        generator=generator_of(seed, "head"),
    )
