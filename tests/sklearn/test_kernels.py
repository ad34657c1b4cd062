"""Kernel metrics: XOR, precomputed kernels and landmarks."""

import numpy as np
import pytest

from similis.sklearn import MetricLearner
from similis.sklearn.features import squared_distances


def xor(rows: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    corners = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    place = np.arange(rows) % 4
    return corners[place] + 0.2 * np.random.default_rng(seed).standard_normal((rows, 2)), place // 2


def ratio(learner: MetricLearner, x: np.ndarray, y: np.ndarray) -> float:
    """Mean squared distance within classes over that between them."""
    z = learner.transform(x)
    d = ((z[:, None] - z[None]) ** 2).sum(-1)
    same = (y[:, None] == y[None]) & ~np.eye(len(y), dtype=bool)
    return d[same].mean() / d[y[:, None] != y[None]].mean()


@pytest.mark.parametrize("name", ["nca", "mcml", "lmnn", "contrastive"])
def test_xor_has_no_linear_metric_and_kernels_solve_it(name):
    """Opposite corners are one class: for every A the mean within is that between, by the parallelogram law.

    NCA and LMNN ask for near neighbours only, which XOR has from the start: they leave the corners apart.
    """
    x, y = xor()
    new, labels = xor(80, seed=1)
    options = {"objective": name, "regularisation": 0.01, "max_iter": 60, "random_state": 0}
    assert 0.9 < ratio(MetricLearner(**options).fit(x, y), new, labels) < 1.2
    for kernel in ({"kernel": "poly", "degree": 2}, {"kernel": "rbf", "gamma": 0.5}):
        assert ratio(MetricLearner(**options, **kernel).fit(x, y), new, labels) < (
            0.9 if name in ("nca", "lmnn") else 0.3
        )


def test_a_precomputed_kernel_is_the_named_one_and_landmarks_come_near_it():
    from sklearn.metrics.pairwise import rbf_kernel

    x, y = xor()
    new, labels = xor(40, seed=1)
    options = {"objective": "mcml", "standardise": False, "regularisation": 0.1, "random_state": 0}
    named = MetricLearner(kernel="rbf", gamma=0.5, **options).fit(x, y)
    given = MetricLearner(kernel="precomputed", **options).fit(rbf_kernel(x, gamma=0.5), y)
    z = given.transform(rbf_kernel(new, x, gamma=0.5))
    assert z == pytest.approx(named.transform(new), abs=1e-8)
    few = MetricLearner(kernel="rbf", gamma=0.5, n_landmarks=40, **options).fit(x, y)
    assert few.metric_.shape == (40, 40)
    assert ratio(few, new, labels) < 0.5
    with pytest.raises(AttributeError, match="kernel"):
        _ = few.importances_


@pytest.mark.parametrize("name", ["mcml", "contrastive"])
def test_landmarks_that_span_the_kernel_give_the_metric_of_all_rows(name):
    """A polynomial of degree 2 in two columns has rank 6: forty landmarks of 120 rows lose nothing."""
    x, y = xor()
    x = x - x.mean(0)  # as the learner centres them
    new = xor(40, seed=1)[0]
    options = {"objective": name, "kernel": "poly", "degree": 2, "standardise": False, "tol": 1e-9, "random_state": 0}
    every = MetricLearner(**options).fit(x, y)
    few = MetricLearner(n_landmarks=40, **options).fit(x, y)
    given = MetricLearner(**options | {"kernel": "precomputed", "n_landmarks": 40}).fit((x @ x.T + 1.0) ** 2, y)
    assert few.value_ == pytest.approx(every.value_, rel=1e-6)
    assert given.value_ == pytest.approx(every.value_, rel=1e-6)
    distances = squared_distances(every.transform(new))
    assert squared_distances(few.transform(new)) == pytest.approx(distances, rel=1e-3, abs=1e-3)
    z = given.transform((new @ x.T + 1.0) ** 2)
    assert squared_distances(z) == pytest.approx(distances, rel=1e-3, abs=1e-3)
