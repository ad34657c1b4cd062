"""The estimator: a metric for a table, in the manners of scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from similis.sklearn.features import MOST, Array, Features, IntArray, first_map, moments, typical_distance
from similis.sklearn.learning import Parameters, Rows, check_parameters, learn, learn_tuples
from similis.values import UserError

SAMPLE = 1000  # rows that tell the unit, the centre of kernel features and the first directions of a large table
KERNEL_COMPONENTS = 32
ACCEPTED = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


class MetricLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, Parameters):  # type: ignore[misc]
    r"""A linear (or kernel) map whose Euclidean distance means "similar", learned from a table.

    .. math::
        d_A(x, z) = (x - z)^T A (x - z) = \lVert G x - G z \rVert^2, \qquad A = G^T G

    Args:
        objective: ``nca``, ``lmnn``, ``mcml``, ``constraints``; ``whitening`` (within classes, in closed form);
            ``euclidean`` (the first map; with ``init="whitened"`` the distance of Mahalanobis); or any registered loss,
            such as ``multi_similarity``.
        objective_options: options of the objective, checked by name.
        n_components: rows of the map, for a metric of low rank; None for all columns (32 with a kernel).
        init: first map: ``auto``, ``identity``, ``pca``, ``lda``, ``whitened``, ``random``, or an array (r, D)
            on the raw columns.
        standardise: columns get unit variance first (folded into the result), so that units do not matter.
        regulariser: ``trace`` and ``frobenius`` keep A small, so that more neighbours count; ``similar`` is
            tr(AC) over pairs of one class.
        regularisation: its weight relative to the mean objective, shared by the columns (divided by D).
        kernel: ``linear``, ``rbf``, ``poly`` or ``precomputed``.
        gamma: of ``rbf``, 1 / (2 sigma^2); None for one over the number of columns.
        degree: of ``poly``, a whole number.
        coef0: of ``poly``, 0 or more.
        n_landmarks: with a kernel and more rows than this, so many landmark rows by Nystroem's method.
        solver: ``lbfgs`` on all rows, ``minibatch`` (Adam); ``auto`` is L-BFGS up to 4,000 rows (1,000 for a
            registered loss, 250 for one over triplets), then minibatches.
        max_iter: most steps of a solver of the whole table.
        tol: relative gain of a step at which it stops.
        batch_size: rows of a minibatch.
        epochs: passes in minibatches.
        learning_rate: of Adam in minibatches.
        random_state: the same number gives the same metric.

    After ``fit``: ``components_`` G (r, D), ``metric_`` A (D, D), ``offset_`` (r,), ``importances_`` (D,),
    ``n_iter_``, ``converged_``, ``value_``, ``unit_`` (whether rows are put on the unit sphere after the map).

    When to use: tables of measurements with some hundred to some hundred thousand rows, before nearest neighbours,
    clustering or search. ``nca`` is the default; ``mcml`` and ``lmnn`` have one optimum.

    Reference: Goldberger et al., NIPS 2004; Weinberger, Saul, JMLR 2009; Globerson, Roweis, NIPS 2005.

    Example:
        >>> x = np.array([[0.0, 3.0], [0.1, -2.0], [5.0, 2.9], [5.1, -2.1]])
        >>> learner = MetricLearner().fit(x, ["a", "a", "b", "b"])
        >>> bool(learner.importances_[0] > 0.8)
        True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MetricLearner:
        """Learn from labels.

        Args:
            X: rows (n, D), array, data frame or sparse; kernel values (n, n) with ``kernel="precomputed"``.
            y: class of each row, numbers or words.
            sample_weight: how much each row counts, as an anchor and as a neighbour; 0 leaves it out.
        """
        X, y = validate_data(self, X, y, ensure_min_samples=2, **ACCEPTED)
        weights = check_weights(sample_weight, X)
        try:
            check_classification_targets(y)
            self.classes_, labels = np.unique(y, return_inverse=True)
        except TypeError as error:
            raise UserError("y mixes numbers, words or missing labels; pass labels of one kind") from error
        kept = np.flatnonzero(weights > 0)
        _, numbers = np.unique(labels[kept], return_inverse=True)
        if numbers.max() < 1:
            raise UserError("the rows have one class only; a metric is learned from two classes or more")
        features, start, seed = self._fit_features(X, kept, weights, labels)
        rows = Rows(lambda index: features.transform(X[kept[index]]), numbers, weights[kept])
        return self._finish(features, learn(rows, start, self, seed))

    def fit_pairs(self, pairs: Any, y: Any, sample_weight: Any = None) -> MetricLearner:
        """Learn from pairs (n, 2, D) and y (n,): 1 for similar, -1 for dissimilar pairs.

        The objective must be ``constraints`` or a registered loss that takes pairs, ``contrastive`` say.
        """
        tuples, signs = check_tuples(pairs, "pairs", 2), np.asarray(y)
        if signs.shape != (len(tuples),) or not np.isin(signs, (-1, 1)).all():
            raise UserError("y of pairs must be 1 (similar) or -1 (dissimilar), one for each pair")
        return self._fit_tuples(tuples, signs == 1, sample_weight)

    def fit_triplets(self, triplets: Any, sample_weight: Any = None) -> MetricLearner:
        """Learn from triplets (n, 3, D): the first row is nearer to the second than to the third.

        The objective must be ``constraints`` or a registered loss that takes triplets, ``triplet`` say.
        """
        return self._fit_tuples(check_tuples(triplets, "triplets", 3), None, sample_weight)

    def transform(self, X: Any) -> Array:
        """Rows under the map, (n, r): Euclidean distance between them is the learned distance."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **ACCEPTED)
        return self._map(X)

    def pair_distance(self, pairs: Any) -> Array:
        """Learned distance (not squared) of each pair (n, 2, D), or of kernel rows (n, 2, m): (n,)."""
        check_is_fitted(self)
        given = check_tuples(pairs, "pairs", 2, self.n_features_in_)
        return np.asarray(np.linalg.norm(self._map(given[:, 0]) - self._map(given[:, 1]), axis=1))

    @property
    def metric_(self) -> Array:
        """The matrix A = G^T G, on the raw columns or, with a kernel, on kernel columns."""
        return np.asarray(self.components_.T @ self.components_)

    @property
    def importances_(self) -> Array:
        """Share of each column, A_jj var_j / sum: the mean squared distance of rows that differ in that column only.

        Redundant columns share what they have in common. A kernel mixes columns: then there are no shares.
        """
        if self._features_.kernel != "linear":
            raise AttributeError("a kernel metric has no importances of columns; use sklearn.inspection instead")
        each = np.square(self.components_).sum(0) * self.variances_
        return np.asarray(each / (each.sum() or 1.0))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _fit_features(self, X: Any, kept: IntArray, weights: Array, labels: Any) -> tuple[Features, Array, int]:
        """Features of a table, a first map on them, and a seed; a sample that is small enough for all pairs will do."""
        check_parameters(self)  # before anything is computed
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        generator = np.random.default_rng(seed)
        sample = kept if len(kept) <= SAMPLE else np.sort(generator.permutation(kept)[:SAMPLE])
        mean, self.variances_ = moments(X, weights)
        scale = np.sqrt(np.where(self.variances_ > 0, self.variances_, 1.0)) if self.standardise else np.ones_like(mean)
        features = Features(np.zeros_like(mean) if issparse(X) else mean, 1.0 / scale)
        if self.kernel != "linear":
            few = len(kept) > self.n_landmarks
            chosen = np.sort(generator.permutation(kept)[: self.n_landmarks]) if few else kept
            gamma = 1.0 if self.kernel == "poly" else self.gamma or 1.0 / X.shape[1]
            options = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
            features = features.with_kernel(self.kernel, options, X, chosen)
            features = replace(features, mean=features.columns(X[sample]).mean(0))
        unit = typical_distance(features.transform(X[sample]))
        features = replace(features, basis=features.basis / unit)
        start = self._first_map(features, X[sample], None if labels is None else labels[sample], generator)
        return features, start, seed

    def _first_map(self, features: Features, X: Any, labels: IntArray | None, generator: np.random.Generator) -> Array:
        rows = features.transform(X)
        width = rows.shape[1]
        if not isinstance(self.init, str):
            given = check_array(self.init, dtype=np.float64, input_name="init")
            if features.kernel != "linear" or given.shape[1] != width:
                raise UserError(f"init has shape {given.shape}; pass (r, {width}), or a name with a kernel")
            return np.asarray(given / features.basis)
        most = width if self.kernel == "linear" else min(width, KERNEL_COMPONENTS)
        components = most if self.n_components is None else self.n_components
        if not 1 <= components <= width:
            raise UserError(f"n_components is {components}; use 1 to {width}, the number of columns")
        return first_map(self.init, rows, labels, int(components), generator)

    def _fit_tuples(self, tuples: Array, similar: Any, sample_weight: Any) -> MetricLearner:
        if self.kernel == "precomputed":
            raise UserError("pairs and triplets carry rows, not kernel values; use another kernel")
        weights = check_weights(sample_weight, tuples)
        stacked = tuples.reshape(-1, tuples.shape[2])
        self.n_features_in_ = tuples.shape[2]
        features, start, seed = self._fit_features(stacked, np.arange(len(stacked)), np.ones(len(stacked)), None)
        rows = features.transform(stacked).reshape(len(tuples), tuples.shape[1], -1)
        return self._finish(features, learn_tuples(rows, similar, weights, start=start, given=self, seed=seed))

    def _finish(self, features: Features, found: Any) -> MetricLearner:
        if not np.isfinite(found.fun + found.x.sum()):
            raise UserError(f"the objective became {found.fun}; lower learning_rate, or pass a smaller init")
        basis, self._features_, self.unit_ = features.basis, features, found.sphere
        self.components_ = found.x * basis if basis.ndim == 1 else found.x @ basis.T
        self.offset_ = self.components_ @ features.mean
        self.value_, self.n_iter_, self.converged_ = float(found.fun), max(1, found.nit), bool(found.success)
        return self

    @np.errstate(over="ignore", invalid="ignore")
    def _map(self, rows: Any) -> Array:
        columns, dtype = self._features_.columns(rows), rows.dtype
        if issparse(columns):
            z = columns @ self.components_.T - self.offset_
        else:  # centred first: a large mean would drown what differs
            z = (columns - self._features_.mean) @ self.components_.T
        norms = np.linalg.norm(z, axis=1, keepdims=True)
        if not (norms <= np.finfo(dtype).max).all():
            raise UserError(f"rows are too large for this metric in {dtype}; rescale them as those of fit")
        return np.asarray(z / np.maximum(norms, 1e-12) if self.unit_ else z).astype(dtype, copy=False)


def check_weights(weights: Any, rows: Any) -> Array:
    """Finite weights (n,); ones for None."""
    checked: Array = _check_sample_weight(weights, rows, dtype=np.float64)
    if not checked.any() or not ((checked >= 0) & (checked <= MOST)).all():
        raise UserError(f"sample_weight must hold numbers from 0 to {MOST:g}, not all 0; use 0 to leave a row out")
    return checked


def check_tuples(tuples: Any, name: str, width: int, columns: int | None = None) -> Array:
    """Finite tuples of rows (n, 2 or 3, D)."""
    checked: Array = check_array(tuples, dtype=np.float64, allow_nd=True, ensure_2d=False, input_name=name)
    if checked.ndim != 3 or checked.shape[1] != width or columns not in (None, checked.shape[2]):
        raise UserError(f"{name} have shape {checked.shape}; pass (n, {width}, {columns or 'D'})")
    return checked
