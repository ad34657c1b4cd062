"""From images to embeddings: backbone, pooling, head, normalisation; and how one is built from names."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn

from similis.networks.backbone import HANDED_OVER, Backbone, Setting, build_backbone
from similis.networks.own_network import build_own
from similis.networks.pooling import OWN, POOLINGS, Pooling
from similis.networks.weights import build_initialised, part_generator
from similis.registry import check_known
from similis.sphere import unit, widen
from similis.values import Options, Preprocessing, UserError

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


class Embedder(nn.Module):
    """Images (B, 3, H, W) to embeddings (B, D).

    Args:
        backbone: the network up to its map of features.
        pooling: name of the pooling, or ``own`` for the backbone's; without meaning for one that returns vectors.
        dim: D, the size of the head's output; 0 for no head, then D is the number of features.
        layer_norm: standardise the pooled features of each sample before the head, without learned scale.
        freeze_batch_norm: batch norms of the backbone stay in evaluation mode and are not trained.
        normalise: put embeddings on the unit sphere; the loss declares whether it wants that.
        generator: where the head's start comes from.

    Example:
        >>> from similis.networks.embedder import build_embedder
        >>> model = build_embedder(backbone="small_conv", dim=64)
        >>> model(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 64])
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        pooling: str,
        dim: int,
        layer_norm: bool,
        freeze_batch_norm: bool,
        normalise: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        size = backbone.features
        self.backbone = backbone
        self.pooling = Pooling(pooling) if backbone.preprocessing is not None and pooling != OWN else None
        self.norm = nn.LayerNorm(size, elementwise_affine=False) if layer_norm else None
        self.head = build_initialised(lambda: nn.Linear(size, dim), generator) if dim else None
        self.dim = dim or size
        self.normalise = normalise
        self.freeze_batch_norm = freeze_batch_norm
        self._backbone_frozen = False
        if freeze_batch_norm:
            for layer in self._batch_norms():
                layer.requires_grad_(False)
        # Remembered by name: freezing the backbone for a while must not wake what is never trained.
        self._trained = tuple(name for name, p in backbone.named_parameters() if p.requires_grad)
        self.train()

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, W), or vectors (B, F) for the identity backbone -> (B, D)."""
        return self.embed_features(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """The backbone's map (B, F, h, w); without a graph while the backbone is frozen."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self._backbone_frozen):
            features: Tensor = self.backbone(images)
        return features

    def embed_features(self, features: Tensor) -> Tensor:
        """Everything behind the backbone: a map (B, F, h, w), or pooled vectors (B, F) -> (B, D)."""
        vectors = self.project(features)
        # A cosine of half precision has three digits; neighbours are closer than that.
        return unit(vectors) if self.normalise else widen(vectors)

    def project(self, features: Tensor) -> Tensor:
        """Pooling, layer norm and head, before any normalisation: (B, F, h, w) or (B, F) -> (B, D)."""
        features = self.pool(features)
        if features.ndim != 2 or features.shape[1] != self.backbone.features:
            raise UserError(
                f"features have shape {tuple(features.shape)}; this model takes (B, {self.backbone.features}) "
                f"or a map (B, {self.backbone.features}, h, w)"
            )
        vectors = features if self.norm is None else self.norm(features)
        return vectors if self.head is None else self.head(vectors)

    def pool(self, features: Tensor) -> Tensor:
        """The backbone's output (B, F, h, w) to vectors (B, F); what is a vector already stays."""
        if features.ndim == 2:
            return features
        pooled: Tensor = (self.pooling or self.backbone.pool)(features)
        return pooled

    @torch.no_grad()
    def cacheable_features(self, images: Tensor) -> Tensor:
        """The input of :meth:`embed_features`: pooled vectors (B, F), or the whole map if the pooling learns."""
        features = self.features(images)
        learns = self.pooling is not None and self.pooling.power is not None
        return features if learns else self.pool(features)

    def freeze_backbone(self, frozen: bool = True) -> None:
        """Stop (or resume) training the backbone: no gradients, evaluation mode, no graph kept."""
        self._backbone_frozen = frozen
        for parameter in self.backbone_parameters:
            parameter.requires_grad_(not frozen)
        self.train(self.training)

    def train(self, mode: bool = True) -> Embedder:
        """Training mode, except for what is frozen."""
        super().train(mode)
        if self._backbone_frozen:
            self.backbone.eval()
        elif self.freeze_batch_norm:
            for layer in self._batch_norms():
                layer.eval()
        return self

    def _batch_norms(self) -> list[nn.Module]:
        return [layer for layer in self.backbone.modules() if isinstance(layer, BATCH_NORMS)]

    @property
    def backbone_parameters(self) -> list[nn.Parameter]:
        """Parameters of the backbone that are meant to be trained, also while it is frozen."""
        return [self.backbone.get_parameter(name) for name in self._trained]

    @property
    def head_parameters(self) -> list[nn.Parameter]:
        """Parameters behind the backbone: of the pooling and of the head."""
        return [p for part in (self.pooling, self.head) if part is not None for p in part.parameters()]

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What the backbone wants done to an image; None if it takes vectors."""
        return self.backbone.preprocessing

    def with_preprocessing(self, preprocessing: Preprocessing) -> Embedder:
        """The same network, sharing its weights, for images that are prepared in another way."""
        backbone, other = copy.copy(self.backbone), copy.copy(self)
        backbone.preprocessing = preprocessing
        other._modules = {**self._modules, "backbone": backbone}
        return other

    def with_head(self, head: nn.Linear) -> Embedder:
        """The same network, sharing its weights, behind another head."""
        other = copy.copy(self)
        other._modules = dict(self._modules)
        other.head = head
        other.dim = head.out_features
        return other

    @property
    def weights_hash(self) -> str | None:
        """Hash of the weights that the backbone was given; None if it started from the seed."""
        return None if self.backbone.loaded is None else self.backbone.loaded.sha256


def input_at(model: Embedder, size: int | None) -> Preprocessing | None:
    """What a network of its own size wants of images of another size; None if its layers depend on the size."""
    from similis.networks.backbones.timm_zoo import Zoo, preprocessing_of

    look = model.preprocessing
    if look is None or size in (None, look.size):
        return look
    if isinstance(model.backbone, Zoo):
        net = model.backbone.net
        fixed = net.pretrained_cfg.get("fixed_input_size")
        return None if fixed else replace(look, size=size, resize=preprocessing_of(net, size).resize)
    return replace(look, size=size, resize=round(size * look.resize / look.size))


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
        pooling: ``gap``, ``gmp``, ``gap+gmp``, ``gem``, or ``own`` for the one the network was published with.
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
    check_known("pooling", pooling, [*POOLINGS, OWN])  # before any weights are fetched
    if dim < 0:
        raise UserError(f"dim is {dim}; allowed are 1 and more, or 0 for no head")
    if image_size is not None and image_size < 1:
        raise UserError(f"image_size is {image_size}; give a number of pixels, or None for the backbone's own")
    setting = Setting(backbone, weights, image_size, part_generator(seed, "backbone"), pooling == OWN)
    return Embedder(
        build_own(setting) if backbone.startswith(HANDED_OVER) else build_backbone(setting, options or {}),
        pooling=pooling,
        dim=dim,
        layer_norm=layer_norm,
        freeze_batch_norm=freeze_batch_norm,
        normalise=normalise,
        generator=part_generator(seed, "head"),
    )
