"""What a person without Python wants to know of a table: is the metric better, and which columns matter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from similis.sklearn.estimator import MetricLearner
from similis.sklearn.matrix import Array
from similis.values import DataError, import_extra

FOLDS, REPEATS, NEIGHBORS = 5, 3, 3


@dataclass(frozen=True)
class Table:
    """Numbers (n, D) with the names of their columns, labels (n,), and the columns that were left out."""

    values: Array
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Accuracy:
    """Mean accuracy of nearest neighbours over folds, and half its 95% interval."""

    mean: float
    half: float
    folds: tuple[float, ...]

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f} ± {100 * self.half:.2f}"


def table_of(columns: Mapping[str, Sequence[str]], label: str) -> Table:
    """A table from columns of text; columns that hold words are left out by name, missing numbers refused.

    Example:
        >>> table_of({"height": ["1", "2"], "note": ["x", "y"], "kind": ["a", "b"]}, "kind").left_out
        ('note',)
    """
    if label not in columns:
        raise DataError(f"there is no column {label!r}; the columns are: {', '.join(columns)}")
    labels = tuple(value.strip() for value in columns[label])
    if "" in labels:
        raise DataError(f"column {label!r} has {labels.count('')} rows without a label; drop or name them")
    numbers: dict[str, list[float]] = {}
    left_out = []
    for name, texts in columns.items():
        if name == label:
            continue
        made = [number_of(text) for text in texts]
        if None in made:
            left_out.append(name)
            continue
        numbers[name] = [float(value) for value in made if value is not None]
    if not numbers:
        raise DataError(f"no column beside {label!r} holds numbers only; words must be turned into numbers first")
    values = np.array(list(numbers.values())).T
    missing = [name for name, column in zip(numbers, values.T, strict=True) if not np.isfinite(column).all()]
    if missing:
        raise DataError(f"numbers are missing in: {', '.join(missing)}; fill them or drop these rows or columns")
    return Table(values, tuple(numbers), labels, tuple(left_out))


def number_of(text: str) -> float | None:
    """The number that a cell holds, NaN for an empty cell, None for words."""
    stripped = text.strip()
    if stripped.lower() in ("", "na", "nan", "null"):
        return math.nan
    try:
        return float(stripped)
    except ValueError:
        return None


def accuracies(table: Table, learner: MetricLearner, seed: int) -> dict[str, Accuracy]:
    """Cross-validated accuracy of three nearest neighbours: columns of unit variance, and the learned metric."""
    selection, neighbours = import_extra("sklearn.model_selection"), import_extra("sklearn.neighbors")
    pipeline, scaler = (
        import_extra("sklearn.pipeline").make_pipeline,
        import_extra("sklearn.preprocessing").StandardScaler,
    )
    labels = np.array(table.labels)
    fewest = int(np.unique(labels, return_counts=True)[1].min())
    if fewest < 2:
        raise DataError("a class has one row only; every class needs two rows or more to be judged")
    folds = selection.RepeatedStratifiedKFold(n_splits=min(FOLDS, fewest), n_repeats=REPEATS, random_state=seed)
    found = {}
    for name, first in (("before", scaler()), ("after", learner)):
        judge = pipeline(first, neighbours.KNeighborsClassifier(NEIGHBORS))
        scores = selection.cross_val_score(judge, table.values, labels, cv=folds, error_score="raise")
        found[name] = interval(scores, min(FOLDS, fewest))
    return found


def interval(scores: Sequence[float], folds: int) -> Accuracy:
    """Mean and 95% interval of repeated cross-validation, corrected for rows shared by the folds.

    Reference: Nadeau, Bengio: Inference for the Generalization Error, Machine Learning 2003.

    Example:
        >>> interval([0.9, 1.0, 0.9, 1.0], 2).mean
        0.95
    """
    values = np.asarray(scores, dtype=np.float64)
    spread = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    error = math.sqrt(spread * (1.0 / len(values) + 1.0 / (folds - 1)))
    quantile = float(import_extra("scipy.stats").t.ppf(0.975, max(1, len(values) - 1)))
    return Accuracy(float(values.mean()), quantile * error, tuple(values.tolist()))
