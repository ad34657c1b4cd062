"""The estimator as scikit-learn and its users meet it."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from similis.sklearn import MetricLearner
from similis.values import UserError
from tests.proof import SHAPES
from tests.sklearn.worked import blobs

REPEATED = (
    "objectives leave the row itself out: a repeated row has its copy as the nearest neighbour of its class, "
    "a row of weight two has not"
)
SKIPPED = {
    "check_sample_weight_equivalence_on_dense_data": REPEATED,
    "check_sample_weight_equivalence_on_sparse_data": REPEATED,
    "check_array_api_input": "runs only with SCIPY_ARRAY_API set",
}
CHECKS = list(estimator_checks_generator(MetricLearner(), mark=None))


def name_of(check):
    return getattr(check, "func", check).__name__


@pytest.mark.parametrize("number", range(len(CHECKS)), ids=lambda n: name_of(CHECKS[n][1]))
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(number):
    estimator, check = CHECKS[number]
    if name_of(check) in SKIPPED:
        pytest.skip(SKIPPED[name_of(check)])
    check(clone(estimator))


def test_components_metric_and_distances_say_the_same():
    x, y = blobs(60, 4)
    learner = MetricLearner(random_state=0).fit(x, y)
    z = learner.transform(x)
    pairs = np.stack([x[:20], x[20:40]], 1)
    difference = x[:20] - x[20:40]
    expected = np.sqrt(np.einsum("nd,de,ne->n", difference, learner.metric_, difference))
    assert learner.pair_distance(pairs) == pytest.approx(expected, rel=1e-9)
    assert np.linalg.norm(z[:20] - z[20:40], axis=1) == pytest.approx(expected, rel=1e-9)
    assert learner.metric_ == pytest.approx(learner.components_.T @ learner.components_)
    with pytest.raises(NotFittedError):
        MetricLearner().pair_distance(pairs)
    with pytest.raises(UserError, match=r"\(n, 2, 4\)"):
        learner.pair_distance(x)


def test_a_wide_column_that_says_nothing_gets_a_small_share_whatever_its_unit():
    x, y = blobs(90, 4)
    raw = MetricLearner(random_state=0).fit(x, y)
    other = MetricLearner(random_state=0).fit(x * np.array([1.0, 1e3, 1e-3, 50.0]) + 7.0, y)
    assert raw.importances_[-1] < 0.1
    assert raw.importances_.sum() == pytest.approx(1.0)
    assert other.importances_ == pytest.approx(raw.importances_, abs=1e-6)


def test_outputs_carry_the_names_of_a_data_frame():
    frame, y = load_wine(return_X_y=True, as_frame=True)
    learner = MetricLearner(n_components=2, random_state=0).set_output(transform="pandas").fit(frame, y)
    assert learner.feature_names_in_.tolist() == frame.columns.tolist()
    assert learner.transform(frame).columns.tolist() == ["metriclearner0", "metriclearner1"]


@pytest.mark.parametrize("name", ["nca", "mcml", "lmnn", "constraints", "whitening", "euclidean"])
def test_table_objectives_work_in_a_pipeline(name):
    x, y = load_wine(return_X_y=True)
    judge = make_pipeline(MetricLearner(name, random_state=0), KNeighborsClassifier(3))
    assert cross_val_score(judge, x, y).mean() > 0.93


@pytest.mark.parametrize("name", sorted({"softmax", "npair", *(name for name, _ in SHAPES)}))
def test_losses_of_every_shape_learn_a_map(name):
    """The value falls, and the loss on a linear map separates better than chance by far."""
    x, y = blobs(48, 4, seed=3)
    learner = MetricLearner(name, max_iter=15, random_state=0).fit(x, y)
    first = MetricLearner(name, max_iter=0, random_state=0).fit(x, y)
    assert learner.value_ < first.value_
    z = learner.transform(x)
    assert np.isfinite(z).all()
    if learner.unit_:
        assert np.linalg.norm(z, axis=1) == pytest.approx(np.ones(48))


def test_grid_search_finds_options_of_the_objective():
    x, y = load_iris(return_X_y=True)
    judge = make_pipeline(MetricLearner("lmnn", random_state=0, max_iter=10), KNeighborsClassifier(3))
    grid = {
        "metriclearner__objective_options": [{"neighbors": 1}, {"neighbors": 3}],
        "metriclearner__n_components": [2],
    }
    assert GridSearchCV(judge, grid, cv=3).fit(x, y).best_score_ > 0.9


@pytest.mark.parametrize("solver", ["lbfgs", "minibatch"])
@pytest.mark.parametrize("name", ["nca", "supcon"])
def test_one_random_state_gives_one_metric(name, solver):
    x, y = blobs(80, 4)
    options = {"solver": solver, "epochs": 2, "batch_size": 32, "init": "random", "max_iter": 5}
    first = MetricLearner(name, random_state=3, **options).fit(x, y)
    again = MetricLearner(name, random_state=3, **options).fit(x, y)
    other = MetricLearner(name, random_state=4, **options).fit(x, y)
    assert np.array_equal(first.components_, again.components_)
    assert not np.allclose(first.components_, other.components_)
    assert np.array_equal(pickle.loads(pickle.dumps(first)).transform(x), first.transform(x))


@pytest.mark.parametrize("name", ["nca", "lmnn", "softmax"])
def test_sparse_rows_give_the_metric_of_dense_ones(name):
    x, y = blobs(60, 4)
    x = np.where(np.abs(x) < 0.5, 0.0, x)
    kept = MetricLearner(name, standardise=False, tol=1e-10, random_state=0)
    thin = clone(kept).fit(sparse.csr_array(x), y)
    if name == "softmax":  # it compares with class vectors around the origin, which centring moves
        assert np.isfinite(thin.transform(sparse.csr_array(x))).all()
        return
    full = kept.fit(x, y)
    assert thin.metric_ == pytest.approx(full.metric_, rel=1e-4, abs=1e-5)


def test_weight_zero_is_absence_and_weight_counts():
    x, y = blobs(60, 3)
    weights = np.ones(60)
    weights[::4] = 0.0
    left = MetricLearner("mcml", init="identity", standardise=False, tol=1e-9, random_state=0)
    with_zeros = clone(left).fit(x, y, sample_weight=weights)
    removed = clone(left).fit(x[weights > 0], y[weights > 0])
    assert with_zeros.metric_ == pytest.approx(removed.metric_, rel=1e-6)
    heavy = clone(left).fit(x, y, sample_weight=np.linspace(0.1, 3, 60))
    assert np.abs(heavy.metric_ - clone(left).fit(x, y).metric_).max() > 1e-3


def test_low_rank_and_starts():
    x, y = load_wine(return_X_y=True)
    for init in ("auto", "pca", "lda", "identity", "whitened", "random"):
        learner = MetricLearner(n_components=2, init=init, random_state=0).fit(x, y)
        assert learner.components_.shape == (2, 13)
        assert np.linalg.matrix_rank(learner.metric_, tol=1e-9 * np.abs(learner.metric_).max()) == 2
    given = MetricLearner(init=learner.components_, max_iter=0).fit(x, y)
    assert given.components_ == pytest.approx(learner.components_, rel=1e-9)


@pytest.mark.parametrize("name", ["constraints", "contrastive"])
def test_pairs_teach_which_column_counts(name):
    generator = np.random.default_rng(0)
    pairs = generator.standard_normal((200, 2, 3))
    signs = np.where(np.abs(pairs[:, 0, 0] - pairs[:, 1, 0]) < 0.8, 1, -1)
    learner = MetricLearner(name, random_state=0).fit_pairs(pairs, signs)
    assert learner.importances_[0] > 0.9
    far, near = learner.pair_distance(pairs[signs == -1]), learner.pair_distance(pairs[signs == 1])
    assert near.max() < np.median(far)
    with pytest.raises(UserError, match="one for each pair"):
        MetricLearner(name).fit_pairs(pairs, np.arange(200))
    with pytest.raises(UserError, match="does not take pairs"):
        MetricLearner("triplet").fit_pairs(pairs, signs)


@pytest.mark.parametrize("name", ["constraints", "triplet"])
def test_triplets_teach_which_column_counts(name):
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((300, 3, 3))
    near = np.abs(rows[:, 0, 1] - rows[:, 1, 1]) < np.abs(rows[:, 0, 1] - rows[:, 2, 1])
    rows = np.where(near[:, None, None], rows, rows[:, [0, 2, 1]])
    learner = MetricLearner(name, random_state=0).fit_triplets(rows)
    assert learner.importances_[1] > 0.9
    kept = learner.pair_distance(rows[:, [0, 1]]) < learner.pair_distance(rows[:, [0, 2]])
    assert kept.mean() > 0.95
    with pytest.raises(UserError, match="triplets"):
        MetricLearner(name).fit_triplets(rows[:, :2])


def test_without_scikit_learn_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import similis.sklearn\n"
        "try: similis.sklearn.MetricLearner\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install -e '.[sklearn]'" in done.stdout
