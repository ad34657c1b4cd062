"""Has the embedding collapsed? How many directions it uses, how evenly it fills the sphere, how tight classes are."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from similis.values import UserError

ROWS = 4096  # rows of one block of the sums below


def spectral_decay(vectors: Tensor) -> float:
    r"""How unevenly the directions of space are used: 0 if all equally, infinite if one is not used at all.

    .. math:: \rho = \mathrm{KL}(U \,\|\, s) = -\log M - \frac{1}{M} \sum_m \log s_m

    with s the singular values of the vectors (N, D) divided by their sum, and U uniform over the
    M = min(N, D) of them. Vectors are not centred. Values below sqrt(D eps) of the largest count as none.

    Reference: Roth et al., Revisiting Training Strategies in Deep Metric Learning, ICML 2020 (lower is better
    for transfer to unseen classes). Their code drops the largest value; the formula of the paper does not.

    Example:
        >>> spectral_decay(torch.eye(3)), spectral_decay(torch.ones(4, 2))
        (0.0, inf)
    """
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise UserError(f"vectors of shape {tuple(vectors.shape)} given; a matrix (N, D), not empty, is needed")
    wide = vectors if len(vectors) >= vectors.shape[1] else vectors.T
    gram = torch.zeros((wide.shape[1],) * 2, dtype=torch.float64, device=vectors.device)
    for part in torch.split(wide, ROWS):
        gram += part.double().T @ part.double()
    squares = torch.linalg.eigvalsh(gram)
    if squares[0] <= squares[-1] * len(squares) * torch.finfo(torch.float64).eps:
        return math.inf
    values = squares.sqrt()
    return max(0.0, -math.log(len(values)) - float((values / values.sum()).log().mean()))


def uniformity(vectors: Tensor, *, sharpness: float = 2.0) -> float:
    r"""Log of the mean Gaussian potential over all pairs of different rows: 0 if all are one point, lower is more even.

    .. math:: \log \frac{2}{N (N - 1)} \sum_{i < j} e^{-t \|x_i - x_j\|^2}

    Reference: Wang and Isola, Understanding Contrastive Representation Learning through Alignment and
    Uniformity on the Hypersphere, ICML 2020, with t = 2. Exact over all pairs, in blocks: O(N^2 D) time.

    Args:
        vectors: (N, D) on the unit sphere, two rows at least.
        sharpness: t.

    Example:
        >>> round(uniformity(torch.tensor([[1.0, 0.0], [-1.0, 0.0]])), 6)
        -8.0
    """
    count = len(vectors)
    if count < 2:
        raise UserError(f"{count} vectors given; give two or more")
    squares = vectors.square().sum(dim=1)
    total = 0.0
    for start in range(0, count, ROWS):
        rows = slice(start, start + ROWS)
        for other in range(start, count, ROWS):
            columns = slice(other, other + ROWS)
            apart = squares[rows, None] + squares[columns] - 2 * vectors[rows] @ vectors[columns].T
            potential = torch.exp(-sharpness * apart.clamp(min=0))
            potential = potential.triu(1) if other == start else potential
            total += float(potential.sum(dtype=torch.float64))
    return math.log(total * 2 / (count * (count - 1))) if total > 0 else -math.inf


def alignment(vectors: Tensor, labels: Tensor) -> float:
    r"""Mean squared distance over all pairs of one class; 0 is perfect, NaN if no class has two rows.

    .. math:: \frac{\sum_c \big( n_c \sum_i \|x_i\|^2 - \|\sum_i x_i\|^2 \big)}{\sum_c n_c (n_c - 1) / 2}

    which is the mean of :math:`\|x_i - x_j\|^2` over the pairs, without visiting them: O(N D).

    Reference: Wang and Isola, ICML 2020, with exponent 2.

    Example:
        >>> alignment(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), torch.tensor([0, 0, 1]))
        2.0
    """
    _, place, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
    pairs = int((sizes * (sizes - 1)).sum()) // 2
    if pairs == 0:
        return math.nan
    wide = torch.zeros((len(sizes), vectors.shape[1]), dtype=torch.float64, device=vectors.device)
    middle = vectors.mean(dim=0, dtype=torch.float64)  # distances do not see a shift; the sums lose fewer digits
    squares = torch.zeros(len(sizes), dtype=torch.float64, device=vectors.device)
    for part, where in zip(torch.split(vectors, ROWS), torch.split(place, ROWS), strict=True):
        shifted = part.double() - middle
        wide.index_add_(0, where, shifted)
        squares.index_add_(0, where, shifted.square().sum(dim=1))
    return max(0.0, float((sizes * squares - wide.square().sum(dim=1)).sum())) / pairs
