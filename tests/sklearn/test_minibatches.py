"""Minibatches of large tables: what they learn, and what they need."""

import numpy as np
import pytest

from similis.sklearn import MetricLearner
from tests.sklearn.worked import blobs


@pytest.mark.parametrize("name", ["nca", "mcml", "constraints", "contrastive"])
def test_minibatches_learn_what_the_whole_table_teaches(name):
    """Most of the way from the first map to the optimum, measured by the objective of the whole table."""
    x, y = blobs(400, 5, seed=2)
    options = {"epochs": 30, "batch_size": 100, "learning_rate": 0.05, "random_state": 0}
    few = MetricLearner(name, solver="minibatch", **options).fit(x, y)
    first, reached = (
        MetricLearner(name, init=init, solver="lbfgs", max_iter=0, random_state=0).fit(x, y).value_
        for init in ("auto", few.components_)
    )
    best = MetricLearner(name, solver="lbfgs", max_iter=300, tol=1e-8, random_state=0).fit(x, y).value_
    assert reached - best < 0.25 * (first - best)


def test_many_small_classes_are_drawn_together():
    x, y = blobs(400, 5, classes=100)
    learner = MetricLearner(solver="minibatch", batch_size=40, epochs=2, random_state=0).fit(x, y)
    assert np.isfinite(learner.value_)
    assert learner.value_ > 0


def test_memory_does_not_grow_with_the_rows():
    """Everything beyond the table itself is a batch, a sample, and a few numbers for each row."""
    import tracemalloc

    peaks = []
    for rows in (8_000, 32_000):
        x, y = blobs(rows, 50)
        tracemalloc.start()
        MetricLearner(epochs=1, batch_size=256, random_state=0).fit(x, y)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    added = 24_000 * 50 * 8
    assert peaks[1] - peaks[0] < 0.3 * added
