"""Tables that numbers cannot follow: every result is finite and right, or one sentence says what to change."""

import numpy as np
import pytest
from scipy import sparse

from similis.registry import losses
from similis.sklearn import MetricLearner
from similis.values import UserError
from tests.sklearn.worked import blobs

X, Y = blobs(40, 4)
PAIRS = np.random.default_rng(0).standard_normal((30, 2, 3))
SIGNS = np.where(np.arange(30) % 2 == 0, 1, -1)
TRIPLETS = np.random.default_rng(1).standard_normal((30, 3, 3))
TOO_SMALL_OR_LARGE = [1e-300, 1e-200, 1e-160, 1e160, 1e200, 1e300]


@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("name", ["nca", "mcml", "lmnn", "constraints", "whitening", "euclidean", "contrastive"])
def test_the_unit_of_a_table_changes_nothing(name, standardise):
    learner = MetricLearner(name, standardise=standardise, max_iter=10, random_state=0)
    expected = learner.fit(X, Y).transform(X)
    shares = learner.importances_
    for scale in (1e-140, 1e-50, 1e50, 1e140):
        z = learner.fit(X * scale, Y).transform(X * scale)
        assert z == pytest.approx(expected, rel=1e-5, abs=1e-5)
        assert learner.importances_ == pytest.approx(shares, rel=1e-5, abs=1e-5)
        assert np.isfinite(learner.metric_).all()
        pairs = np.stack([X[:5], X[5:10]], 1) * scale
        assert learner.pair_distance(pairs) == pytest.approx(np.linalg.norm(z[:5] - z[5:10], axis=1), rel=1e-9)


@pytest.mark.parametrize("scale", TOO_SMALL_OR_LARGE)
@pytest.mark.parametrize("name", ["nca", "whitening", "softmax"])
def test_squares_out_of_range_are_refused_by_the_column(name, scale):
    with pytest.raises(UserError, match=r"column 0 .*; rescale"):
        MetricLearner(name).fit(X * scale, Y)
    one = X * np.array([1.0, 1.0, scale, 1.0])
    for table in (one, sparse.csr_array(one)):
        with pytest.raises(UserError, match=r"column 2 .*; rescale"):
            MetricLearner(name).fit(table, Y)


@pytest.mark.parametrize("scale", TOO_SMALL_OR_LARGE)
def test_pairs_and_triplets_out_of_range_are_refused(scale):
    with pytest.raises(UserError, match="rescale"):
        MetricLearner("constraints").fit_pairs(PAIRS * scale, SIGNS)
    with pytest.raises(UserError, match="rescale"):
        MetricLearner("constraints").fit_triplets(TRIPLETS * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_new_rows_too_large_for_the_metric_are_refused(dtype):
    factor = {np.float32: 1e30, np.float64: 1e145}[dtype]
    for name in ("nca", "supcon"):  # distances anywhere, and on the unit sphere
        learner = MetricLearner(name, max_iter=5, random_state=0).fit((X / factor).astype(dtype), Y)
        assert np.isfinite(learner.transform((X / factor).astype(dtype))).all()
        with pytest.raises(UserError, match="too large"):
            learner.transform((X * factor).astype(dtype))
    far = np.stack([X[:3], X[3:6] * 1e200], 1)
    with pytest.raises(UserError, match="too large"):
        MetricLearner(random_state=0).fit(X, Y).pair_distance(far)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e16, 1e140])
@pytest.mark.parametrize("options", [{}, {"n_components": 2, "init": "random"}, {"standardise": False}])
def test_a_constant_column_has_no_share_and_moves_no_row(value, options):
    settings = {"random_state": 0, "max_iter": 20, "regularisation": 0.0} | options
    table = np.column_stack([X, np.full(len(X), value)])
    learner = MetricLearner(**settings).fit(table, Y)
    assert learner.importances_[-1] == 0.0
    assert learner.importances_.sum() == pytest.approx(1.0)
    other = table.copy()
    other[:, -1] = 0.0
    z = MetricLearner(**settings).fit(other, Y).transform(other)
    assert learner.transform(table) == pytest.approx(z, rel=1e-6, abs=1e-6)


def test_rows_that_are_all_equal_give_distances_of_zero():
    learner = MetricLearner(random_state=0).fit(np.full((12, 3), 7.0), np.arange(12) % 2)
    assert not learner.transform(np.full((12, 3), 7.0)).any()
    assert not learner.importances_.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_everywhere(bad):
    table, pairs, triplets = X.copy(), PAIRS.copy(), TRIPLETS.copy()
    table[3, 1] = pairs[3, 1, 1] = triplets[3, 1, 1] = bad
    weights = np.where(np.arange(len(X)) == 3, bad, 1.0)
    fitted = MetricLearner("constraints").fit_pairs(PAIRS, SIGNS)
    for call in (
        lambda: MetricLearner().fit(table, Y),
        lambda: MetricLearner().fit(sparse.csr_array(table), Y),
        lambda: MetricLearner().fit(X, Y).transform(table),
        lambda: MetricLearner().fit(X, Y, sample_weight=weights),
        lambda: MetricLearner(init=table[:4]).fit(X, Y),
        lambda: MetricLearner("constraints").fit_pairs(pairs, SIGNS),
        lambda: MetricLearner("constraints").fit_triplets(triplets),
        lambda: fitted.pair_distance(pairs),
        lambda: MetricLearner(regularisation=bad).fit(X, Y),
    ):
        with pytest.raises(ValueError, match=r"NaN|infinity|finite"):
            call()


def test_weights_are_refused_below_zero_and_beyond_the_range():
    for bad in (-1.0, 1e200):
        with pytest.raises(UserError, match="sample_weight"):
            MetricLearner().fit(X, Y, sample_weight=np.where(Y == 0, bad, 1.0))
        with pytest.raises(UserError, match="sample_weight"):
            MetricLearner("constraints").fit_pairs(PAIRS, SIGNS, sample_weight=np.where(SIGNS == 1, bad, 1.0))
    with pytest.raises(ValueError, match=r"zero|not all 0"):
        MetricLearner().fit(X, Y, sample_weight=np.zeros(len(X)))


def test_labels_may_be_words_and_must_be_of_one_kind():
    numbers = MetricLearner(random_state=0).fit(X, Y)
    words = MetricLearner(random_state=0).fit(X, np.array(["kiwi", "apple", "plum"])[Y])
    assert words.classes_.tolist() == ["apple", "kiwi", "plum"]
    assert words.metric_ == pytest.approx(numbers.metric_, rel=1e-6, abs=1e-9)
    with pytest.raises(UserError, match="one kind"):
        MetricLearner().fit(X, np.array(["a", 1, None], dtype=object)[Y])
    with pytest.raises(UserError, match="two classes"):
        MetricLearner().fit(X, ["same"] * len(X))


WORDS = [f"class {number}" for number in range(len(X))]


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("name", ["nca", "mcml", "lmnn"])
@pytest.mark.parametrize("solver", ["auto", "minibatch"])
def test_one_row_for_each_class_is_refused_where_neighbours_are_needed(name, solver):
    with pytest.raises(UserError, match="two rows"):
        MetricLearner(name, solver=solver).fit(X, WORDS)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("name", ["constraints", "euclidean", *(e.name for e in losses if e.name != "nca")])
def test_one_row_for_each_class_is_finite_or_refused_elsewhere(name):
    try:
        learner = MetricLearner(name, max_iter=3, random_state=0).fit(X, WORDS)
    except UserError:
        return
    assert np.isfinite(learner.transform(X)).all()
    assert np.abs(learner.transform(X)).max() > 0


def test_a_solver_that_diverges_and_a_kernel_that_overflows_are_refused():
    with pytest.raises(UserError, match="learning_rate"):
        MetricLearner(solver="minibatch", learning_rate=1e200, epochs=1, batch_size=10, random_state=0).fit(X, Y)
    with pytest.raises(UserError, match="kernel"):
        MetricLearner(kernel="poly", degree=3, standardise=False).fit(X * 1e120, Y)
    with pytest.raises(UserError, match="epochs"):
        MetricLearner(solver="minibatch", epochs=0).fit(X, Y)
