"""The first map of a solver, on features."""

from __future__ import annotations

from typing import Any

import numpy as np

from similis.registry import unknown
from similis.sklearn.groups import Groups
from similis.sklearn.matrix import Array, covariance, factor, whitening
from similis.values import UserError, import_extra

STARTS = ("auto", "identity", "pca", "lda", "whitened", "random")
RIDGE = 1e-3


def first_map(name: str, rows: Any, groups: Groups | None, components: int, generator: np.random.Generator) -> Array:
    """A map G (r, q): the leading directions of one kind.

    Args:
        name: ``identity`` (leading columns), ``pca``, ``lda`` (directions that part the classes, then ``pca``'s),
            ``whitened`` (unit covariance), ``random``; ``auto`` is the identity at full rank, ``lda`` below
            the number of classes, ``pca`` between, and ``random`` for sparse rows of lower rank.
        rows: features (n, q), a sample of them for a large table; in the order of ``groups``.
        groups: classes; None without labels.
        components: r.
        generator: of ``random``.
    """
    if name not in STARTS:
        raise UserError(unknown("init", name, list(STARTS)))
    width = rows.shape[1]
    sparse = hasattr(rows, "toarray")
    kind = resolved(name, components, width, sparse, groups)
    if kind == "identity":
        return np.eye(components, width)
    if kind == "random":
        return np.asarray(generator.standard_normal((components, width)) / np.sqrt(width))
    if sparse:
        raise UserError(f"init={kind!r} needs a dense table; use 'identity' or 'random' with a sparse one")
    spread = covariance(rows) if len(rows) > 1 else np.eye(width)
    if kind == "whitened":
        return whitening(spread, RIDGE)[:components]
    principal = unit_rows(factor(spread, components))
    if kind == "pca" or groups is None:
        return principal
    parting = discriminants(rows, groups, min(components, len(groups.starts) - 2))
    return np.vstack([parting, principal[: components - len(parting)]])


def resolved(name: str, components: int, width: int, sparse: bool, groups: Groups | None) -> str:
    """What ``auto`` means for these sizes."""
    if name != "auto":
        return name
    if components >= width:
        return "identity"
    if sparse:
        return "random"
    return "lda" if groups is not None and components <= len(groups.starts) - 2 else "pca"


def discriminants(rows: Array, groups: Groups, number: int) -> Array:
    """Directions with the largest ratio of spread between classes to spread within, of unit length."""
    if number < 1:
        return np.zeros((0, rows.shape[1]))
    total = rows - rows.mean(0)
    inside = np.vstack([rows[block] - rows[block].mean(0) for block in groups.blocks()])
    every, within = total.T @ total, inside.T @ inside
    within += RIDGE * max(float(np.trace(within)) / len(within), 1e-12) * np.eye(len(within))
    _, vectors = import_extra("scipy.linalg").eigh(every - inside.T @ inside, within)
    return unit_rows(vectors[:, ::-1][:, :number].T)


def unit_rows(rows: Array) -> Array:
    """Rows of length 1; a row of zeros stays."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1.0)
