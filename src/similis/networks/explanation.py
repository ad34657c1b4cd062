"""Which places of two images make them similar: the cosine taken apart over the map of features."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.networks.embedder import Embedder
from similis.values import UserError


def similarity_maps(model: Embedder, images: Tensor) -> tuple[float, Tensor]:
    r"""The cosine similarity of two images, and the part of each place of either image in it.

    With maps of features :math:`F^a, F^b`, embeddings :math:`v = g(F)` before normalisation and the norms held fixed,

    .. math:: s = \frac{v^a \cdot v^b}{|v^a| |v^b|}, \quad c^a_p = \sum_f F^a_{fp} \frac{\partial s}{\partial F^a_{fp}}.

    Behind average pooling and a linear head without bias the parts of an image sum to s exactly; max pooling gives a
    feature's part to the place of its maximum. Stylianou, Souvenir, Pless: Visualizing Deep Similarity Networks, WACV
    2019, for average and max pooling; the gradient says the same for any pooling that is homogeneous.

    Args:
        model: with a backbone that returns a map.
        images: (2, 3, S, S), as the backbone wants them.

    Shapes: (2, 3, S, S) -> a number, (2, h, w).

    When to use: to see whether two images are similar because of the object or of its background. It shows positions
    of the feature map, each with a large receptive field, so that edges are blurred.

    Example:
        >>> from similis.networks.embedder import build_embedder
        >>> net = build_embedder(backbone="small_conv", dim=0, pooling="gap", image_size=32).eval()
        >>> similarity, parts = similarity_maps(net, torch.rand(2, 3, 32, 32))
        >>> bool((parts.sum((1, 2)) - similarity).abs().max() < 1e-5)
        True
    """
    if images.ndim != 4 or len(images) != 2 or model.preprocessing is None:
        raise UserError(f"images have shape {tuple(images.shape)}; give two, (2, 3, S, S), to a model of images")
    with torch.enable_grad():
        features = model.backbone(images).detach().requires_grad_()
        first, second = model.project(features).float()
        similarity = (first * second).sum() / (first.norm() * second.norm()).detach().clamp(min=1e-12)
        (gradient,) = torch.autograd.grad(similarity, features)
    if features.ndim != 4:
        raise UserError("this network pools its tokens itself; build it with pooling=gap, whose tokens are a map")
    parts = (features * gradient).sum(1).detach().cpu()
    return float(similarity.detach()), parts
