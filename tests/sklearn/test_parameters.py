"""Parameters of the estimator: what is refused, and what solvers, regularisers and weights do."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from similis.sklearn import MetricLearner
from similis.sklearn.features import squared_distances
from similis.sklearn.learning import row_batches
from similis.values import UserError
from tests.sklearn.worked import blobs


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"solver": "newton"}, "unknown solver"),
        ({"init": "zeros"}, "unknown init"),
        ({"init": np.eye(2)}, r"pass \(r, 3\)"),
        ({"init": np.eye(3), "kernel": "rbf"}, "a name with a kernel"),
        ({"kernel": "rbf", "gamma": 0.0}, "gamma"),
        ({"kernel": "precomputed"}, r"\(n, n\)"),
        ({"objective_options": {"form": "product"}}, "unknown form"),
        ({"objective": "lmnn", "objective_options": {"mu": 2.0}}, "mu"),
        ({"objective": "whitening", "objective_options": {"mu": 2.0}}, "unknown option"),
        ({"objective": "lmnn", "objective_options": {"neighbours": 2}}, "did you mean 'neighbors'"),
        ({"regulariser": "l1"}, "regulariser"),
        ({"objective": "mcml", "solver": "projected"}, "unknown solver"),
        ({"kernel": "poly", "degree": 1.5}, "whole number"),
        ({"kernel": "poly", "degree": 2.0}, "whole number"),
        ({"kernel": "poly", "degree": 0}, "whole number"),
        ({"kernel": "poly", "degree": True}, "whole number"),
        ({"kernel": "poly", "coef0": -1.0}, "coef0"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, match):
    x, y = blobs()
    with pytest.raises(UserError, match=match):
        MetricLearner(**options).fit(x, y)


def test_tuples_refuse_what_they_cannot_use():
    pairs, signs = np.random.default_rng(0).standard_normal((20, 2, 3)), np.where(np.arange(20) % 2, 1, -1)
    with pytest.raises(UserError, match="kernel values"):
        MetricLearner("constraints", kernel="precomputed").fit_pairs(pairs, signs)
    with pytest.raises(UserError, match="takes no weights of pairs"):
        MetricLearner("contrastive").fit_pairs(pairs, signs, sample_weight=np.linspace(1, 2, 20))
    x, y = blobs()
    with pytest.raises(UserError, match="dense table"):
        MetricLearner(n_components=2, init="pca").fit(sparse.csr_array(x), y)


@pytest.mark.parametrize("name", ["nca", "contrastive"])
def test_the_regulariser_of_similar_pairs_is_their_mean_squared_distance(name):
    x, y = blobs(30, 4)
    learner = MetricLearner(name, max_iter=0, regulariser="similar", regularisation=4.0, random_state=0).fit(x, y)
    without = MetricLearner(name, max_iter=0, regularisation=0.0, random_state=0).fit(x, y)
    distances = squared_distances(learner.transform(x))
    mean = np.mean([distances[y == label][:, y == label].mean() for label in range(3)])
    assert learner.value_ - without.value_ == pytest.approx(mean, rel=1e-9)  # 4.0 over four columns


def test_weights_decide_how_often_a_loss_sees_a_row():
    labels, draws = np.arange(100) % 4, np.where(np.arange(100) < 50, 0.018, 0.002)
    batches = row_batches(labels, draws, 50, 200, 0)
    seen = np.bincount(np.concatenate(list(batches)), minlength=100)
    assert seen.sum() == 200 * 100
    assert seen[:50].sum() / seen.sum() == pytest.approx(0.9, abs=0.01)
    x, y = blobs(60, 3)
    first = MetricLearner("contrastive", epochs=2, random_state=0)
    even, heavy = (clone(first).fit(x, y, sample_weight=w).metric_ for w in (None, np.linspace(0.1, 3, 60)))
    assert np.abs(even - heavy).max() > 1e-3
