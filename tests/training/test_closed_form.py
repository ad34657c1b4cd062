"""Closed forms against numpy, scikit-learn, and what they promise."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from similis.training.closed_form import FITS, choose_shrinkage, fit_lda, fit_pca, fit_whitening, get_fit
from similis.values import UserError


def drawn(classes=12, rows=15, size=6, seed=0):
    chance = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), rows)
    mix = chance.standard_normal((size, size))
    x = chance.standard_normal((classes, size))[labels] * 2 + chance.standard_normal((len(labels), size)) @ mix + 5
    return torch.tensor(x), torch.tensor(labels)


def test_pca_is_that_of_scikit_learn():
    x, labels = drawn()
    found = fit_pca(x, labels).map(3)(x).numpy()
    wanted = PCA(3).fit_transform(x.numpy())
    np.testing.assert_allclose(np.abs(found), np.abs(wanted), atol=1e-5)


def test_lda_is_that_of_scikit_learn_without_shrinkage():
    x, labels = drawn()
    found = fit_lda(x, labels).map(4, shrinkage=1e-12)(x).numpy()
    wanted = LinearDiscriminantAnalysis(solver="eigen").fit(x.numpy(), labels.numpy()).transform(x.numpy())[:, :4]
    wanted = wanted - wanted.mean(axis=0)
    scale = np.linalg.norm(wanted, axis=0) / np.linalg.norm(found, axis=0)
    np.testing.assert_allclose(np.abs(found * scale), np.abs(wanted), atol=1e-4)
    assert fit_lda(*drawn(classes=3)).map(6).weight.shape == (2, 6)


def test_whitening_in_plain_arithmetic():
    x, labels = drawn()
    rows, codes, shrinkage = x.numpy(), labels.numpy(), 0.5
    within = sum(np.cov(rows[codes == c].T) * (np.sum(codes == c) - 1) for c in range(12)) / (len(rows) - 12)
    within += shrinkage * np.trace(within) / 6 * np.eye(6)
    values, vectors = np.linalg.eigh(within)
    white = vectors @ np.diag(values**-0.5) @ vectors.T
    mapped = (rows - rows.mean(0)) @ white
    directions = np.linalg.eigh(np.cov(mapped.T))[1][:, ::-1][:, :4]
    found = fit_whitening(x, labels).map(4, shrinkage)(x).numpy()
    np.testing.assert_allclose(np.abs(found), np.abs(mapped @ directions), atol=1e-5)


@pytest.mark.parametrize("name", FITS)
def test_the_map_turns_with_the_features(name):
    """Distances after the map do not depend on the orientation of the features."""
    x, labels = drawn()
    turn = torch.linalg.qr(torch.tensor(np.random.default_rng(1).standard_normal((6, 6))))[0]
    one, other = (torch.cdist(y, y) for y in (get_fit(name)(z, labels).map(4, 1.0)(z) for z in (x, x @ turn)))
    torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_fewer_rows_than_features_and_constant_columns():
    x, labels = drawn(classes=4, rows=3, size=30)
    x[:, 7] = 2.0
    for name in FITS:
        assert torch.isfinite(get_fit(name)(x, labels).map(5, 1.0)(x)).all()


def test_validation_classes_choose_the_shrinkage():
    x, labels = drawn()
    first, second = labels < 6, labels >= 6
    parts = (x[first], labels[first]), (x[second], labels[second])
    best, values = choose_shrinkage(
        "whitening", *parts, 4, judge=lambda y, _: float(-y.norm()), candidates=(0.1, 1.0, 10.0)
    )
    assert (best, list(values)) == (10.0, [0.1, 1.0, 10.0])
    assert choose_shrinkage("whitening", *parts, 4, judge=lambda *_: 1.0, candidates=(3.0, 0.3))[0] == 0.3
    assert choose_shrinkage("pca", *parts, 4, judge=lambda *_: 1.0) == (0.0, {})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, y: fit_whitening(x, y).map(7), "dim is 7; features of size 6 allow 1 to 6"),
        (lambda x, y: fit_whitening(x, y).map(3, 0.0), "shrinkage is 0.0; give a number above 0"),
        (lambda x, y: fit_whitening(x, torch.zeros_like(y)), "of 1 classes given; fit needs two classes"),
        (lambda x, y: fit_lda(x, torch.arange(len(x))), "one with two rows"),
        (lambda x, y: fit_pca(x[0], y), r"features have shape \(6,\)"),
        (lambda x, y: get_fit("whitenin"), "did you mean .whitening"),
    ],
)
def test_what_cannot_be_fitted_is_refused(call, message):
    with pytest.raises(UserError, match=message):
        call(*drawn())
