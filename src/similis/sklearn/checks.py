"""What comes in: tables, labels, weights, pairs and triplets, each refused with a sentence that helps."""

from __future__ import annotations

from typing import Any

import numpy as np

from similis.sklearn.groups import Whole
from similis.sklearn.matrix import Array
from similis.values import UserError, import_extra


def checked_table(estimator: Any, rows: Any, labels: Any) -> tuple[Any, Any]:
    """Rows and labels as scikit-learn checks them; names of columns are kept by the estimator."""
    validation = import_extra("sklearn.utils.validation")
    rows, labels = validation.validate_data(
        estimator, rows, labels, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2
    )
    import_extra("sklearn.utils.multiclass").check_classification_targets(labels)
    return rows, labels


def checked_new(estimator: Any, rows: Any) -> Any:
    """Rows to transform, with the columns of the fit."""
    validation = import_extra("sklearn.utils.validation")
    validation.check_is_fitted(estimator)
    return validation.validate_data(
        estimator, rows, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
    )  # fmt: skip


def checked_labels(labels: Any, weights: Array) -> tuple[Any, Whole]:
    """The classes, and the class number of each row; at least two classes must have weight."""
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(np.unique(numbers[weights > 0])) < 2:
        raise UserError("The rows have one class only; a metric is learned from two classes or more")
    return classes, numbers.astype(np.int64)


def checked_weights(weights: Any, rows: Any) -> Array:
    """Weights (n,) of 0 or more; ones for None."""
    made: Array = import_extra("sklearn.utils.validation")._check_sample_weight(weights, rows, dtype=np.float64)
    if (made < 0).any():
        raise UserError("sample_weight has values below 0; use 0 to leave a row out")
    return made


def checked_tuples(tuples: Any, width: int, labels: Any, weights: Any) -> tuple[Array, Any, Array]:
    """Tuples (n, width, D) as finite numbers, which pairs are similar (None for triplets), weights (n,)."""
    made = np.asarray(tuples, dtype=np.float64)
    name = "pairs" if width == 2 else "triplets"
    if made.ndim != 3 or made.shape[1] != width or not len(made):
        raise UserError(f"{name} have shape {made.shape}; pass (n, {width}, D)")
    if not np.isfinite(made).all():
        raise UserError(f"{name} have values that are not finite; fill or drop them")
    counted = np.ones(len(made)) if weights is None else np.asarray(weights, dtype=np.float64)
    if counted.shape != (len(made),) or (counted < 0).any() or not counted.sum() > 0:
        raise UserError(
            f"sample_weight has shape {counted.shape}; pass one number of 0 or more for each of {len(made)}"
        )
    if labels is None:
        return made, None, counted
    signs = np.asarray(labels)
    if signs.shape != (len(made),) or not np.isin(signs, (-1, 1)).all():
        raise UserError("y of pairs must be 1 (similar) or -1 (dissimilar), one for each pair")
    return made, signs == 1, counted


def sizes_of(components: int | None, width: int, most: int | None) -> int:
    """Rows of the map: what was asked for, or all columns up to ``most``."""
    if components is None:
        return width if most is None else min(width, most)
    if not 1 <= components <= width:
        raise UserError(f"n_components is {components}; use 1 to {width}, the number of columns")
    return int(components)
