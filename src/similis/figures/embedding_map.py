"""A map of an embedding: a place in the plane for every image."""

from __future__ import annotations

import torch
from torch import Tensor

from similis.values import UserError, import_extra

DIRECTIONS = 50  # of largest variance that t-SNE sees


def principal_plane(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """The two directions of largest variance: coordinates (N, 2) and the share of the variance of each (2,).

    The sign of a direction is free; here the coordinate farthest from 0 is positive, so that a map is always the same.

    Example:
        >>> plane, share = principal_plane(torch.tensor([[0.0, 1.0], [1.0, 1.0], [5.0, 1.0]]))
        >>> plane[:, 0].tolist(), share.tolist()
        ([-2.0, -1.0, 3.0], [1.0, 0.0])
    """
    if vectors.ndim != 2 or len(vectors) < 2:
        raise UserError(f"a map needs vectors (N, D) of two images or more; given {tuple(vectors.shape)}")
    centred = vectors.double() - vectors.double().mean(0)
    values, directions = torch.linalg.eigh(centred.T @ centred)
    strongest = directions[:, -2:].flip(1) if vectors.shape[1] > 1 else torch.cat([directions, 0 * directions], 1)
    plane = centred @ strongest
    far = plane.gather(0, plane.abs().argmax(0, keepdim=True))
    share = torch.cat([values.flip(0), values.new_zeros(1)])[:2].clamp(min=0) / values.sum().clamp(min=1e-300)
    return plane * torch.where(far < 0, -1.0, 1.0), share


def lay_out(vectors: Tensor, *, start: list[list[float]] | None = None) -> list[list[float]]:
    """A plane (N, 2) in which near rows stay near, by t-SNE; from ``start`` where given, so that two maps compare.

    It runs on one thread: t-SNE's threads wait for each other busily, and would make the map depend on their number.
    Reference: van der Maaten, Hinton, Visualizing Data using t-SNE, JMLR 2008.
    """
    plane = principal_plane(vectors)[0]
    if len(vectors) < 5:
        return plane.tolist()
    manifold, decomposition = import_extra("sklearn.manifold", "plots"), import_extra("sklearn.decomposition", "plots")
    rows = vectors.float().numpy()
    if min(rows.shape) > DIRECTIONS:
        rows = decomposition.PCA(DIRECTIONS, random_state=0).fit_transform(rows)
    begin = (plane / plane[:, 0].std().clamp_min(1e-12)).numpy() if start is None else torch.tensor(start).numpy()
    tsne = manifold.TSNE(
        perplexity=min(30.0, (len(rows) - 1) / 3), init=(1e-4 if start is None else 1e-1) * begin, random_state=0
    )
    with import_extra("threadpoolctl", "plots").threadpool_limits(1):
        return tsne.fit_transform(rows).tolist()  # type: ignore[no-any-return]
