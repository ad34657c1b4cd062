"""Linear maps in closed form: principal components, within-class whitening, discriminant analysis.

They are fitted on features in one pass, without a loss and without steps, and applied as a linear layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from similis.registry import unknown
from similis.values import UserError

SHRINKAGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # what validation classes choose from


class LinearMap(NamedTuple):
    """Features x to ``weight @ x + bias``.

    Attributes:
        weight: (D, F).
        bias: (D,).
    """

    weight: Tensor
    bias: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """(N, F) -> (N, D)."""
        return features @ self.weight.T.to(features) + self.bias.to(features)


def fit_pca(features: Tensor, labels: Tensor, dim: int, shrinkage: float = 0.0) -> LinearMap:  # noqa: ARG001
    """The ``dim`` directions of largest variance; labels are not used.

    Args:
        features: (N, F).
        labels: (N,), ignored.
        dim: D, at most F.
        shrinkage: ignored.
    """
    x, mean = centre(features)
    return onto(leading_directions(x.T @ x, check_size(dim, x)), mean)


def fit_whitening(features: Tensor, labels: Tensor, dim: int, shrinkage: float = 1.0) -> LinearMap:
    r"""Within-class whitening, then the directions of largest variance.

    With W the covariance within classes, shrunk to :math:`W_\lambda = W + \lambda \frac{\mathrm{tr} W}{F} I`, features
    are mapped by :math:`W_\lambda^{-1/2}` and reduced to the D principal directions of the mapped features. What varies
    within a class then counts little, whatever the class.

    Args:
        features: (N, F).
        labels: (N,) class of each row.
        dim: D, at most F.
        shrinkage: lambda.

    When to use: as the first thing after a pretrained network, before any training; as the baseline of every loss.

    Reference: Mikolajczyk, Matas: Improving Descriptors for Fast Tree Matching by Optimal Linear Projection, ICCV 2007;
    Jegou, Chum: Negative Evidences and Co-occurrences in Image Retrieval, ECCV 2012.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> labels = torch.arange(20).repeat_interleave(10)
        >>> means = torch.randn(20, 8, generator=generator)
        >>> noise = torch.randn(200, 8, generator=generator) * torch.linspace(0.1, 5, 8)
        >>> fit_whitening(means[labels] + noise, labels, 4).weight.shape
        torch.Size([4, 8])
    """
    x, mean = centre(features)
    white = inverse_root(within_covariance(x, labels), shrinkage)
    return onto(leading_directions(white @ (x.T @ x) @ white, check_size(dim, x)) @ white, mean)


def fit_lda(features: Tensor, labels: Tensor, dim: int, shrinkage: float = 1.0) -> LinearMap:
    """Linear discriminant analysis: within-class whitening, then the principal directions of the class means.

    Args:
        features: (N, F).
        labels: (N,) class of each row; C classes.
        dim: D; there are at most C - 1 directions, and the map has no more.
        shrinkage: as for :func:`fit_whitening`.

    Reference: Fisher: The Use of Multiple Measurements in Taxonomic Problems, 1936; Rao, 1948.
    """
    x, mean = centre(features)
    white = inverse_root(within_covariance(x, labels), shrinkage)
    means, counts = class_means(x, labels)
    spread = means * counts.sqrt()[:, None]
    size = min(check_size(dim, x), len(means) - 1)
    return onto(leading_directions(white @ (spread.T @ spread) @ white, size) @ white, mean)


FITS: dict[str, Callable[..., LinearMap]] = {"whitening": fit_whitening, "pca": fit_pca, "lda": fit_lda}


def get_fit(name: str) -> Callable[..., LinearMap]:
    """The function of that name; raises an error that names the others."""
    if name not in FITS:
        raise UserError(unknown("closed form", name, list(FITS)))
    return FITS[name]


def choose_shrinkage(
    name: str,
    train: tuple[Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    dim: int,
    *,
    judge: Callable[[Tensor, Tensor], float],
    candidates: Iterable[float] = SHRINKAGES,
) -> tuple[float, dict[float, float]]:
    """The shrinkage with the best value on validation classes, the smallest of equals; and all values.

    Args:
        name: of the closed form; ``pca`` has no shrinkage.
        train: features and labels to fit on.
        validation: features and labels of other classes.
        dim: D.
        judge: (vectors, labels) -> value, larger is better.
        candidates: to try.
    """
    if name == "pca":
        return 0.0, {}
    fit, (features, labels) = get_fit(name), validation
    values = {each: judge(fit(*train, dim, each)(features), labels) for each in candidates}
    return max(values, key=lambda each: (values[each], -each)), values


def ledoit_wolf(features: Tensor, labels: Tensor) -> float:
    r"""A shrinkage that needs no validation classes, from the rows around the means of their classes.

    Reference: Ledoit, Wolf: A Well-Conditioned Estimator for Large-Dimensional Covariance Matrices, 2004. Their weight
    :math:`\rho` of the identity is :math:`\lambda = \rho / (1 - \rho)` here.
    """
    x, _ = centre(features)
    means, _ = class_means(x, labels)
    x = x - means[torch.unique(labels, return_inverse=True)[1].to(x.device)]
    rows, size = x.shape
    spread = x.T @ x / rows
    beta = ((x**2).sum(dim=1) ** 2).sum() / rows**2 - (spread**2).sum() / rows
    delta = (spread**2).sum() - spread.trace() ** 2 / size
    weight = float((beta / delta).clamp(1e-6, 1 - 1e-6)) if delta > 0 else 1e-6
    return weight / (1 - weight)


def can_fit(labels: Tensor) -> bool:
    """Whether there are two classes, one of them with two rows."""
    return 2 <= len(torch.unique(labels)) < len(labels)


def centre(features: Tensor) -> tuple[Tensor, Tensor]:
    """Features less their mean, in double precision, and the mean."""
    if features.ndim != 2 or len(features) < 2:
        raise UserError(
            f"features have shape {tuple(features.shape)}; a map is fitted on (N, F) with at least two rows"
        )
    x = features.double()
    mean = x.mean(dim=0)
    return x - mean, mean


def check_size(dim: int, features: Tensor) -> int:
    """The size of a map, between 1 and F."""
    if not 1 <= dim <= features.shape[1]:
        raise UserError(f"dim is {dim}; features of size {features.shape[1]} allow 1 to {features.shape[1]}")
    return dim


def class_means(features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean of each class (C, F) and its number of rows (C,)."""
    _, codes, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    sums = features.new_zeros(len(counts), features.shape[1]).index_add_(0, codes.to(features.device), features)
    return sums / counts.to(features)[:, None], counts.to(features)


def within_covariance(features: Tensor, labels: Tensor) -> Tensor:
    """Pooled covariance of rows around the mean of their class (F, F)."""
    means, counts = class_means(features, labels)
    if not can_fit(labels):
        raise UserError(f"{len(features)} rows of {len(means)} classes given; fit needs two classes, one with two rows")
    return (features.T @ features - (means * counts[:, None]).T @ means) / (len(features) - len(means))


def inverse_root(covariance: Tensor, shrinkage: float) -> Tensor:
    """The symmetric inverse root of a covariance with a share of its mean variance added to the diagonal."""
    if not shrinkage > 0:
        raise UserError(f"shrinkage is {shrinkage}; give a number above 0, such as 1")
    size = len(covariance)
    mean = covariance.trace() / size
    values, vectors = torch.linalg.eigh(covariance + shrinkage * mean * torch.eye(size).to(covariance))
    root: Tensor = (vectors / values.clamp_min(torch.finfo(values.dtype).tiny).sqrt()) @ vectors.T
    return root


def leading_directions(spread: Tensor, dim: int) -> Tensor:
    """The eigenvectors of the largest eigenvalues as rows (dim, F), each with its largest entry positive."""
    rows: Tensor = torch.linalg.eigh(spread)[1].T.flip(0)[:dim]
    largest = rows.gather(1, rows.abs().argmax(dim=1, keepdim=True))
    return rows * largest.sign()


def onto(weight: Tensor, mean: Tensor) -> LinearMap:
    """The map of features less their mean, as a linear layer in single precision."""
    return LinearMap(weight.float(), (-weight @ mean).float())
