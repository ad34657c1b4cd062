"""Linear maps in closed form: principal components, within-class whitening, discriminant analysis.

They are fitted on features in one pass, without a loss and without steps, and applied as a linear layer. A fit sees the
features once; the map of each size and shrinkage follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from similis.registry import check_known
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


class Fit(NamedTuple):
    """What every map of some features follows from, whatever its size and shrinkage.

    Attributes:
        mean: (F,) of the features.
        spread: (F, F) scatter whose leading directions are kept, in the coordinates of ``basis``.
        basis: (F, F) directions in columns: those of the covariance within classes, or the axes.
        variances: (F,) within classes along them; None where nothing is whitened.
        most: directions that there are.
    """

    mean: Tensor
    spread: Tensor
    basis: Tensor
    variances: Tensor | None
    most: int

    def map(self, dim: int, shrinkage: float = 1.0) -> LinearMap:
        r"""The map to ``dim`` dimensions, at most F; :math:`\lambda` is the shrinkage, which ``pca`` does not have."""
        size = len(self.mean)
        if not 1 <= dim <= size:
            raise UserError(f"dim is {dim}; features of size {size} allow 1 to {size}")
        scale = torch.ones_like(self.mean)
        if self.variances is not None:
            if not shrinkage > 0:
                raise UserError(f"shrinkage is {shrinkage}; give a number above 0, such as 1")
            shrunk = self.variances + shrinkage * self.variances.mean()
            scale = shrunk.clamp_min(torch.finfo(shrunk.dtype).tiny).rsqrt()
        leading = torch.linalg.eigh(self.spread * scale * scale[:, None])[1].T.flip(0)[: min(dim, self.most)]
        directions = leading @ self.basis.T
        largest = directions.gather(1, directions.abs().argmax(dim=1, keepdim=True))
        weight = largest.sign() * (leading * scale) @ self.basis.T
        return LinearMap(weight.float(), (-weight @ self.mean).float())


def fit_pca(features: Tensor, labels: Tensor, weights: Tensor | None = None) -> Fit:  # noqa: ARG001
    """The directions of largest variance; labels are not used.

    Args:
        features: (N, F).
        labels: (N,), ignored.
        weights: (N,) how often each row counts; None for once.
    """
    x, mean, times = centre(features, weights)
    return Fit(mean, scatter(x, times), torch.eye(len(mean)).to(x), None, len(mean))


def fit_whitening(features: Tensor, labels: Tensor, weights: Tensor | None = None) -> Fit:
    r"""Within-class whitening, then the directions of largest variance.

    With W the covariance within classes, shrunk to :math:`W_\lambda = W + \lambda \frac{\mathrm{tr} W}{F} I`, features
    are mapped by :math:`W_\lambda^{-1/2}` and reduced to the D principal directions of the mapped features. What varies
    within a class then counts little, whatever the class. One eigen-decomposition of W serves every :math:`\lambda`.

    Args:
        features: (N, F).
        labels: (N,) class of each row.
        weights: (N,) how often each row counts; None for once.

    When to use: as the first thing after a pretrained network, before any training; as the baseline of every loss.

    Reference: Mikolajczyk, Matas: Improving Descriptors for Fast Tree Matching by Optimal Linear Projection, ICCV 2007;
    Jegou, Chum: Negative Evidences and Co-occurrences in Image Retrieval, ECCV 2012.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> labels = torch.arange(20).repeat_interleave(10)
        >>> means = torch.randn(20, 8, generator=generator)
        >>> noise = torch.randn(200, 8, generator=generator) * torch.linspace(0.1, 5, 8)
        >>> fit_whitening(means[labels] + noise, labels).map(4).weight.shape
        torch.Size([4, 8])
    """
    x, mean, times = centre(features, weights)
    whole = scatter(x, times)
    variances, basis = within_directions(whole, class_means(x, labels, times), labels)
    return Fit(mean, basis.T @ whole @ basis, basis, variances, len(mean))


def fit_lda(features: Tensor, labels: Tensor, weights: Tensor | None = None) -> Fit:
    """Linear discriminant analysis: within-class whitening, then the principal directions of the class means.

    Args:
        features: (N, F).
        labels: (N,) class of each row; C classes. There are at most C - 1 directions, and the map has no more.
        weights: (N,) how often each row counts; None for once.

    Reference: Fisher: The Use of Multiple Measurements in Taxonomic Problems, 1936; Rao, 1948.
    """
    x, mean, times = centre(features, weights)
    means, counts = class_means(x, labels, times)
    variances, basis = within_directions(scatter(x, times), (means, counts), labels)
    return Fit(mean, scatter(means @ basis, counts), basis, variances, len(means) - 1)


FITS: dict[str, Callable[..., Fit]] = {"whitening": fit_whitening, "pca": fit_pca, "lda": fit_lda}


def get_fit(name: str) -> Callable[..., Fit]:
    """The function of that name; raises an error that names the others."""
    check_known("closed form", name, FITS)
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
    fit, (features, labels) = get_fit(name)(*train), validation
    values = {each: judge(fit.map(dim, each)(features), labels) for each in candidates}
    return max(values, key=lambda each: (values[each], -each)), values


def ledoit_wolf(features: Tensor, labels: Tensor, weights: Tensor | None = None) -> float:
    r"""A shrinkage that needs no validation classes, from the rows around the means of their classes.

    Reference: Ledoit, Wolf: A Well-Conditioned Estimator for Large-Dimensional Covariance Matrices, 2004. Their weight
    :math:`\rho` of the identity is :math:`\lambda = \rho / (1 - \rho)` here.
    """
    x, _, times = centre(features, weights)
    x = x - class_means(x, labels, times)[0][torch.unique(labels, return_inverse=True)[1].to(x.device)]
    rows, size = times.sum(), x.shape[1]
    spread = scatter(x, times) / rows
    beta = (times * (x**2).sum(dim=1) ** 2).sum() / rows**2 - (spread**2).sum() / rows
    delta = (spread**2).sum() - spread.trace() ** 2 / size
    weight = float((beta / delta).clamp(1e-6, 1 - 1e-6)) if delta > 0 else 1e-6
    return weight / (1 - weight)


def can_fit(labels: Tensor) -> bool:
    """Whether there are two classes, one of them with two rows."""
    return 2 <= len(torch.unique(labels)) < len(labels)


def centre(features: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Features less their mean, in double precision, the mean, and how often each row counts."""
    if features.ndim != 2 or len(features) < 2:
        raise UserError(
            f"features have shape {tuple(features.shape)}; a map is fitted on (N, F) with at least two rows"
        )
    x = features.double()
    times = x.new_ones(len(x)) if weights is None else weights.to(x)
    mean = times @ x / times.sum()
    return x - mean, mean, times


def scatter(rows: Tensor, times: Tensor) -> Tensor:
    """The sum of the outer products of rows (n, F), each so many times."""
    return (rows * times[:, None]).T @ rows


def class_means(features: Tensor, labels: Tensor, times: Tensor) -> tuple[Tensor, Tensor]:
    """Mean of each class (C, F) and its number of rows (C,)."""
    classes, codes = torch.unique(labels, return_inverse=True)
    codes = codes.to(features.device)
    counts = times.new_zeros(len(classes)).index_add_(0, codes, times)
    sums = features.new_zeros(len(classes), features.shape[1]).index_add_(0, codes, features * times[:, None])
    return sums / counts[:, None], counts


def within_directions(whole: Tensor, classes: tuple[Tensor, Tensor], labels: Tensor) -> tuple[Tensor, Tensor]:
    """Variances (F,) of rows around the mean of their class, and their directions in columns (F, F).

    Args:
        whole: (F, F) scatter of all rows.
        classes: means and numbers of rows, from :func:`class_means`.
        labels: (N,) of the rows.
    """
    means, counts = classes
    if not can_fit(labels):
        raise UserError(f"{len(labels)} rows of {len(means)} classes given; fit needs two classes, one with two rows")
    within = (whole - scatter(means, counts)) / (counts.sum() - len(means))
    return tuple(torch.linalg.eigh(within))
