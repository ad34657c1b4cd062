"""The report of ``similis metric``: is the metric better than columns of unit variance?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from similis.sklearn.estimator import MetricLearner
from similis.sklearn.features import Array
from similis.values import DataError

FOLDS, REPEATS, NEIGHBORS = 5, 3, 3


class Table(NamedTuple):
    """Numbers (n, D) with the names of their columns, labels (n,), and the columns that were left out."""

    values: Array
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    left_out: tuple[str, ...]

    def __str__(self) -> str:
        return f"{len(self.labels)} rows, {len(self.columns)} columns, {len(set(self.labels))} classes"


class Accuracy(NamedTuple):
    """Mean accuracy of nearest neighbours over folds, and half its 95% interval."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f} ± {100 * self.half:.2f}"


def parse_table(columns: Mapping[str, Sequence[str]], label: str) -> Table:
    """A table from columns of text; columns that hold words are left out by name, missing numbers refused."""
    if label not in columns:
        raise DataError(f"there is no column {label!r}; the columns are: {', '.join(columns)}")
    labels = tuple(value.strip() for value in columns[label])
    if "" in labels:
        raise DataError(f"column {label!r} has {labels.count('')} rows without a label; drop or name them")
    parsed = {name: parse_column(texts) for name, texts in columns.items() if name != label}
    numbers = {name: column for name, column in parsed.items() if column is not None}
    if not numbers:
        raise DataError(f"no column beside {label!r} holds numbers only; words must be turned into numbers first")
    missing = [name for name, column in numbers.items() if not np.isfinite(column).all()]
    if missing:
        raise DataError(f"numbers are missing in: {', '.join(missing)}; fill them or drop these rows or columns")
    left_out = tuple(name for name in parsed if name not in numbers)
    return Table(np.stack(list(numbers.values()), axis=1), tuple(numbers), labels, left_out)


def parse_column(texts: Sequence[str]) -> Array | None:
    """The numbers of a column, NaN for empty cells; None if a cell holds words."""
    try:
        return np.array([math.nan if text.strip().lower() in ("", "na", "null") else float(text) for text in texts])
    except ValueError:
        return None


def accuracies(table: Table, learner: MetricLearner, seed: int) -> dict[str, Accuracy]:
    """Cross-validated accuracy of three nearest neighbours: columns of unit variance, and the learned metric."""
    labels = np.array(table.labels)
    if len(set(table.labels)) < 2:
        raise DataError(f"all rows are of one class, {table.labels[0]!r}; a metric needs rows of two classes or more")
    fewest = int(np.unique(labels, return_counts=True)[1].min())
    if fewest < 3:  # two of them train in each fold
        raise DataError("a class has fewer than three rows; every class needs three or more to be judged")
    folds = RepeatedStratifiedKFold(n_splits=min(FOLDS, fewest), n_repeats=REPEATS, random_state=seed)
    found = {}
    for name, first in (("before", StandardScaler()), ("after", learner)):
        judge = make_pipeline(first, KNeighborsClassifier(NEIGHBORS))
        scores = cross_val_score(judge, table.values, labels, cv=folds, error_score="raise")
        found[name] = interval(scores, min(FOLDS, fewest))
    return found


def interval(scores: Sequence[float], folds: int) -> Accuracy:
    """Mean and 95% interval of repeated cross-validation, corrected for rows shared by the folds.

    Reference: Nadeau, Bengio: Inference for the Generalization Error, Machine Learning 2003.
    """
    variance = float(np.var(scores, ddof=1)) if len(scores) > 1 else 0.0
    error = math.sqrt(variance * (1.0 / len(scores) + 1.0 / (folds - 1)))
    return Accuracy(float(np.mean(scores)), float(stats.t.ppf(0.975, max(1, len(scores) - 1))) * error)
