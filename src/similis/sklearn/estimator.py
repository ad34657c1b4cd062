"""The estimator: a metric for a table, in the manners of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from similis.sklearn.checks import checked_labels, checked_new, checked_table, checked_tuples, checked_weights, sizes_of
from similis.sklearn.features import Features, moments, typical_distance
from similis.sklearn.fitting import Learned, Rows, Settings, learn, learn_tuples
from similis.sklearn.groups import grouped
from similis.sklearn.kernels import checked_kernel, with_landmarks
from similis.sklearn.matrix import Array
from similis.sklearn.minibatches import Plan
from similis.sklearn.objectives import known_objective
from similis.sklearn.problem import dense
from similis.sklearn.start import first_map
from similis.values import UserError, import_extra

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
else:
    base = import_extra("sklearn.base")
    BaseEstimator, TransformerMixin = base.BaseEstimator, base.TransformerMixin
    ClassNamePrefixFeaturesOutMixin = base.ClassNamePrefixFeaturesOutMixin

SAMPLE = 1000  # rows that tell the unit, the centre of kernel features and the first directions of a large table
KERNEL_COMPONENTS = 32


class MetricLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""A linear (or kernel) map whose Euclidean distance means "similar", learned from a table.

    .. math::
        d_A(x, z) = (x - z)^T A (x - z) = \lVert G x - G z \rVert^2, \qquad A = G^T G

    Args:
        objective: ``nca``, ``lmnn``, ``mcml``, ``constraints``; ``whitening`` (Mahalanobis) and ``euclidean``;
            or any registered loss, ``multi_similarity`` say.
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
        solver: ``lbfgs`` over the map, ``projected`` gradients over the cone of matrices (convex objectives),
            ``minibatch``; ``auto`` is L-BFGS up to 4,000 rows (1,000 for a registered loss,
            250 for one over triplets), then minibatches.
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

    def __init__(
        self,
        objective: str = "nca",
        *,
        objective_options: dict[str, Any] | None = None,
        n_components: int | None = None,
        init: Any = "auto",
        standardise: bool = True,
        regulariser: str = "trace",
        regularisation: float = 0.3,
        kernel: str = "linear",
        gamma: float | None = None,
        degree: int = 2,
        coef0: float = 1.0,
        n_landmarks: int = 500,
        solver: str = "auto",
        max_iter: int = 100,
        tol: float = 1e-3,
        batch_size: int = 1024,
        epochs: int = 20,
        learning_rate: float = 0.02,
        random_state: Any = None,
    ) -> None:
        self.objective = objective
        self.objective_options = objective_options
        self.n_components = n_components
        self.init = init
        self.standardise = standardise
        self.regulariser = regulariser
        self.regularisation = regularisation
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_landmarks = n_landmarks
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MetricLearner:
        """Learn from labels.

        Args:
            X: rows (n, D), array, data frame or sparse; kernel values (n, n) with ``kernel="precomputed"``.
            y: class of each row, numbers or words.
            sample_weight: how much each row counts, as an anchor and as a neighbour; 0 leaves it out.
        """
        X, y = checked_table(self, X, y)
        weights = checked_weights(sample_weight, X)
        self.classes_, labels = checked_labels(y, weights)
        kept = np.flatnonzero(weights > 0)
        seed, generator = self._draws()
        features, sample = self._features(X, kept, weights, seed, generator)
        ordered = grouped(labels[sample])
        start = self._start(features, X, sample[ordered.order], ordered, generator)

        def at(index: Any) -> Any:
            return features.of(X[kept[index]])

        _, own = np.unique(labels[kept], return_inverse=True)
        rows = Rows(at, own.astype(np.int64), weights[kept])
        return self._finish(features, learn(rows, start, self._settings(seed, start)))

    def fit_pairs(self, pairs: Any, y: Any, sample_weight: Any = None) -> MetricLearner:
        """Learn from pairs (n, 2, D) and y (n,): 1 for similar, -1 for dissimilar pairs.

        The objective must be ``constraints`` or a registered loss that takes pairs, ``contrastive`` say.
        """
        tuples, similar, weights = checked_tuples(pairs, 2, y, sample_weight)
        return self._fit_tuples(tuples, similar, weights)

    def fit_triplets(self, triplets: Any, sample_weight: Any = None) -> MetricLearner:
        """Learn from triplets (n, 3, D): the first row is nearer to the second than to the third.

        The objective must be ``constraints`` or a registered loss that takes triplets, ``triplet`` say.
        """
        tuples, _, weights = checked_tuples(triplets, 3, None, sample_weight)
        return self._fit_tuples(tuples, None, weights)

    def transform(self, X: Any) -> Array:
        """Rows under the map, (n, r): Euclidean distance between them is the learned distance."""
        X = checked_new(self, X)
        return self._mapped(X).astype(X.dtype if X.dtype.kind == "f" else np.float64, copy=False)

    def pair_distance(self, pairs: Any) -> Array:
        """Learned distance (not squared) of each pair (n, 2, D), or of kernel rows (n, 2, m): (n,)."""
        import_extra("sklearn.utils.validation").check_is_fitted(self)
        given = np.asarray(pairs, dtype=np.float64)
        if given.ndim != 3 or given.shape[1] != 2 or given.shape[2] != self.n_features_in_:
            raise UserError(f"pairs have shape {given.shape}; pass (n, 2, {self.n_features_in_})")
        distance: Array = np.linalg.norm(self._mapped(given[:, 0]) - self._mapped(given[:, 1]), axis=1)
        return distance

    def importances_by_name(self) -> dict[str, float]:
        """Share of each column in the metric, largest first; see ``importances_``."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"column {number}" for number in range(len(self.importances_))]
        order = np.argsort(-self.importances_, kind="stable")
        return {str(names[number]): float(self.importances_[number]) for number in order}

    @property
    def metric_(self) -> Array:
        """The matrix A = G^T G, on the raw columns or, with a kernel, on kernel columns."""
        made: Array = self.components_.T @ self.components_
        return made

    @property
    def importances_(self) -> Array:
        """Share of each column, A_jj var_j / sum: the mean squared distance of rows that differ in that column only.

        Redundant columns share what they have in common. A kernel mixes columns: then there are no shares.
        """
        if self._features_.kernel is not None:
            raise AttributeError("a kernel metric has no importances of columns; use sklearn.inspection instead")
        each = np.square(self.components_).sum(0) * self.variances_
        total = float(each.sum())
        made: Array = each / total if total > 0 else each
        return made

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _draws(self) -> tuple[int, np.random.Generator]:
        seed = int(import_extra("sklearn.utils").check_random_state(self.random_state).randint(2**31 - 1))
        return seed, np.random.default_rng(seed)

    def _features(
        self, X: Any, kept: Any, weights: Array, seed: int, generator: np.random.Generator
    ) -> tuple[Features, Any]:
        """Features, and the row numbers of a sample that is small enough for all pairs."""
        known_objective(self.objective)
        sample = kept if len(kept) <= SAMPLE else np.sort(generator.permutation(kept)[:SAMPLE])
        kernel = checked_kernel(self.kernel, self.gamma, self.degree, self.coef0, X.shape[1])
        if kernel is not None and kernel.name == "precomputed":
            mean, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        else:
            mean, scale = moments(X, weights, self.standardise)
        self.variances_ = np.square(moments(X, weights, True)[1])
        raw = Features(mean, scale, kernel)
        centre = None
        if kernel is not None:
            pool = raw.scaled(X if kernel.name == "precomputed" else X[kept[: max(SAMPLE, self.n_landmarks) * 10]])
            kernel = with_landmarks(kernel, pool, self.n_landmarks, seed)
            centre = np.asarray((kernel.columns(raw.scaled(X[sample])) @ kernel.basis).mean(0))
            raw = Features(mean, scale, kernel, centre)
        return Features(mean, scale, kernel, centre, typical_distance(dense(raw.of(X[sample])))), sample

    def _start(self, features: Features, X: Any, sample: Any, groups: Any, generator: Any) -> Array:
        rows = features.of(X[sample])
        components = sizes_of(self.n_components, rows.shape[1], None if features.kernel is None else KERNEL_COMPONENTS)
        if isinstance(self.init, str):
            return first_map(self.init, rows, groups, components, generator)
        given = np.asarray(self.init, dtype=np.float64)
        if features.kernel is not None or given.ndim != 2 or given.shape[1] != rows.shape[1]:
            raise UserError(f"init has shape {given.shape}; pass (r, {rows.shape[1]}), or a name with a kernel")
        return features.unfolded(given)

    def _settings(self, seed: int, start: Array) -> Settings:
        plan = Plan(self.batch_size, self.epochs, self.learning_rate)
        weight = self.regularisation / start.shape[1]
        options = dict(self.objective_options or {})
        return Settings(
            self.objective, options, self.regulariser, weight, self.solver, self.max_iter, self.tol, plan, seed
        )  # fmt: skip

    def _fit_tuples(self, tuples: Array, similar: Any, weights: Array) -> MetricLearner:
        if self.kernel == "precomputed":
            raise UserError("pairs and triplets carry rows, not kernel values; use another kernel")
        stacked = tuples.reshape(-1, tuples.shape[2])
        self.n_features_in_ = tuples.shape[2]
        seed, generator = self._draws()
        every = np.arange(len(stacked))
        features, sample = self._features(stacked, every, np.ones(len(stacked)), seed, generator)
        start = self._start(features, stacked, sample, None, generator)
        rows = features.of(stacked).reshape(len(tuples), tuples.shape[1], -1)
        return self._finish(features, learn_tuples(rows, similar, weights, start, self._settings(seed, start)))

    def _finish(self, features: Features, learned: Learned) -> MetricLearner:
        self.components_, self.offset_ = features.folded(learned.components)
        self.value_, self.n_iter_, self.converged_ = learned.value, learned.steps, learned.converged
        self.unit_ = learned.sphere
        self._features_ = features
        return self

    def _mapped(self, rows: Any) -> Array:
        z = np.asarray(self._features_.columns(rows) @ self.components_.T - self.offset_)
        if not self.unit_:
            return z
        norms = np.linalg.norm(z, axis=1, keepdims=True)
        return np.asarray(z / np.maximum(norms, 1e-12))
