"""No network: ready-made feature vectors pass through, so that linear metric learning is one more run."""

from __future__ import annotations

from torch import Tensor

from similis.networks.backbone import Backbone, Setting, register_backbone
from similis.values import UserError


class Identity(Backbone):
    """Vectors (B, F) in, the same vectors out; a wrong length is refused."""

    def forward(self, vectors: Tensor) -> Tensor:
        """(B, F) -> (B, F)."""
        if vectors.ndim != 2 or vectors.shape[1] != self.features:
            raise UserError(
                f"the identity backbone was built for vectors (B, {self.features}) and got {tuple(vectors.shape)}; "
                "set its option features to the length of your vectors"
            )
        return vectors


@register_backbone(paper="none: the features are given")
def identity(setting: Setting, *, features: int = 0) -> Backbone:
    """Feature vectors as they are; with a head, a learned linear map of them.

    Args:
        setting: takes neither weights nor an image size.
        features: length F of the vectors; must be given.

    Shapes: (B, F) -> (B, F).

    When to use: features from elsewhere, or the linear methods (NCA, LMNN) as runs like any other.

    Example:
        >>> import torch
        >>> net = identity(Setting("identity", None, None, torch.Generator()), features=3)
        >>> net(torch.ones(2, 3)).shape
        torch.Size([2, 3])
    """
    if features < 1:
        raise UserError(f"identity got features={features}; give the length of your vectors, for example features=512")
    if setting.weights is not None or setting.image_size is not None:
        raise UserError("identity takes neither weights nor an image size; leave both out")
    return Identity(features, None)
