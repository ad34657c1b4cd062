"""Values against worked numbers and plain loops, gradients against autograd, one optimum from ten starts."""

from functools import partial

import numpy as np
import pytest
import torch

from similis.sklearn.features import Features, class_blocks, covariance, squared_distances, unit_covariance
from similis.sklearn.learning import Parameters, Problem
from similis.sklearn.objectives import (
    constraints,
    hinge,
    lmnn,
    mcml,
    nca,
    pair_hinges,
    target_neighbours,
    tuple_constraints,
)
from similis.values import UserError
from tests.sklearn.worked import LABELS, MAP, ROWS, blobs


def sorted_blobs(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rows, labels = blobs(number, 3, seed=seed)
    order = np.argsort(labels, kind="stable")
    return rows[order], labels[order]


def squared_distance(x: np.ndarray, z: np.ndarray, metric: np.ndarray) -> float:
    return float((x - z) @ metric @ (x - z))


def test_worked_numbers_of_distances_and_hinges():
    distances = squared_distances(ROWS @ MAP.T)
    assert distances[0, 1] == pytest.approx(1.1492, abs=1e-6)
    assert distances[0, 3] == pytest.approx(4.4257, abs=1e-6)
    assert squared_distance(ROWS[0], ROWS[3], MAP.T @ MAP) == pytest.approx(4.4257, abs=1e-6)
    near, far, other = (distances[0, i : i + 1] for i in (1, 3, 2))
    assert pair_hinges(near, np.array([True]), 0.5, 4.0)[0][0] == pytest.approx(0.6492, abs=1e-6)
    assert pair_hinges(far, np.array([False]), 1.0, 5.0)[0][0] == pytest.approx(0.5743, abs=1e-6)
    assert hinge(near - other + 1.0)[0][0] == pytest.approx(0.8692, abs=1e-6)


def test_worked_numbers_of_matrices():
    spread = covariance(ROWS)
    white = ROWS @ unit_covariance(spread).T
    assert np.linalg.norm(white[0] - white[3]) == pytest.approx(2.53012385, abs=1e-6)
    assert covariance(white) == pytest.approx(np.eye(2), abs=1e-12)
    inverse = squared_distance(ROWS[0], ROWS[3], np.linalg.inv(spread))
    assert np.sqrt(inverse) == pytest.approx(2.53012385, abs=1e-6)


def test_worked_numbers_of_objectives():
    table, z = (ROWS, LABELS, np.ones(5)), ROWS @ MAP.T
    assert mcml(*table)(z)[0] == pytest.approx(4.40169659, abs=1e-6)
    assert -nca(*table, form="sum")(z)[0] == pytest.approx(2.46720087, abs=1e-6)
    pull, push, both = (lmnn(*table, mu=mu, neighbors=1, smooth=0.0)(ROWS)[0] for mu in (0.0, 1.0, 0.5))
    assert (pull, push) == pytest.approx((5.22, 7.54), abs=1e-6)
    assert both == pytest.approx(6.38, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [("rbf", {"gamma": 0.5}, 1.31956039), ("poly", {"gamma": 1.0, "degree": 2, "coef0": 1.0}, 4.99080154)],
)
def test_worked_numbers_of_kernels(name, options, expected):
    features = Features(np.zeros(2), np.ones(2)).with_kernel(name, options, ROWS, np.arange(5))
    k = features.columns(ROWS)
    assert np.sqrt(k[0, 0] - 2 * k[0, 3] + k[3, 3]) == pytest.approx(expected, abs=1e-6)
    mapped = features.transform(ROWS)
    assert np.linalg.norm(mapped[0] - mapped[3]) == pytest.approx(expected, abs=1e-6)


def test_a_kernel_has_no_negative_eigenvalue():
    plain = Features(np.zeros(2), np.ones(2))
    with pytest.raises(UserError, match="eigenvalue"):
        plain.with_kernel("precomputed", {}, np.array([[1.0, 2.0], [2.0, 1.0]]), np.arange(2))


def loop_value(
    name: str, z: torch.Tensor, labels: list[int], weights: list[float], targets: np.ndarray
) -> torch.Tensor:
    """Every objective once more in plain loops."""
    number, total = len(labels), z.new_zeros(())
    d = ((z[:, None] - z[None]) ** 2).sum(-1)
    for i in range(number):
        others = [j for j in range(number) if j != i]
        own = [j for j in others if labels[j] == labels[i]]
        if not own:
            continue
        every = sum(weights[j] * torch.exp(-d[i, j]) for j in others)
        if name == "lmnn":
            for j in targets[i]:
                total = total + 0.5 * weights[i] * d[i, j]
                for k in others:
                    if labels[k] != labels[i]:
                        total = total + 0.5 * weights[i] * weights[k] * torch.relu(1 + d[i, j] - d[i, k])
        elif name == "mcml":
            mass = sum(weights[j] for j in own)
            for j in own:
                ideal = weights[j] / mass
                chance = weights[j] * torch.exp(-d[i, j]) / every
                total = total + weights[i] * ideal * (np.log(ideal) - torch.log(chance))
        else:
            chance = sum(weights[j] * torch.exp(-d[i, j]) for j in own) / every
            total = total - weights[i] * (torch.log(chance) if name == "nca_log" else chance)
    return total


PLAIN = Parameters(regularisation=0.0)
OBJECTIVES = {
    "nca_log": nca,
    "nca_sum": partial(nca, form="sum"),
    "mcml": mcml,
    "lmnn": partial(lmnn, neighbors=2, smooth=0.0),
    "constraints": partial(constraints, smooth=0.0),
}


@pytest.mark.parametrize("name", ["nca_log", "nca_sum", "mcml", "lmnn"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("block", [96, 2])
def test_values_and_gradients_are_those_of_plain_loops_by_autograd(name, weighted, block, monkeypatch):
    monkeypatch.setattr("similis.sklearn.objectives.BLOCK_ROWS", block)
    rows, labels = blobs(13, 3, seed=4)
    labels[-1] = 7  # a class of one row: no anchor, still a neighbour of others
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 13) if weighted else np.ones(13)
    order = np.argsort(labels, kind="stable")
    rows, labels, weights = rows[order], labels[order], weights[order]
    targets = target_neighbours(rows, class_blocks(labels), 2)
    start = 0.4 * np.random.default_rng(2).standard_normal((2, 3))
    components = torch.tensor(start, requires_grad=True)
    loop = loop_value(name, torch.tensor(rows) @ components.T, labels.tolist(), weights.tolist(), targets)
    loop.backward()
    share = 1.0 / weights.sum()
    value, gradient = Problem(rows, 2, OBJECTIVES[name](rows, labels, weights), share, PLAIN).at(start.ravel())
    assert value == pytest.approx(share * loop.item(), rel=1e-10)
    assert gradient == pytest.approx(share * components.grad.numpy().ravel(), rel=1e-9, abs=1e-12)


def slope_of_differences(problem: Problem, point: np.ndarray, way: np.ndarray) -> float:
    return (problem.at(point + 1e-6 * way)[0] - problem.at(point - 1e-6 * way)[0]) / 2e-6


@pytest.mark.parametrize("name", list(OBJECTIVES))
@pytest.mark.parametrize("regulariser", ["trace", "frobenius", "similar"])
def test_the_gradient_is_that_of_differences(name, regulariser):
    rows, labels = sorted_blobs(15, seed=5)
    parameters = Parameters(regulariser=regulariser, regularisation=0.5)
    objective = OBJECTIVES[name](rows, labels, np.ones(15))
    problem = Problem(rows, 3, objective, 1.0 / 15, parameters, rows if regulariser == "similar" else None)
    point, way = 0.3 * np.random.default_rng(3).standard_normal((2, 9))
    assert slope_of_differences(problem, point, way) == pytest.approx(float(problem.at(point)[1] @ way), rel=1e-5)


def test_given_pairs_and_triplets_have_the_gradient_of_differences():
    generator = np.random.default_rng(6)
    triplets = generator.standard_normal((12, 3, 3))
    weights = generator.uniform(0.5, 2.0, 12)
    near, far = triplets[:, 0] - triplets[:, 1], triplets[:, 0] - triplets[:, 2]
    point, way = generator.standard_normal((2, 6))
    for rows, similar in ((near, np.arange(12) % 2 == 0), (np.vstack([near, far]), None)):
        problem = Problem(rows, 2, tuple_constraints(similar, weights, smooth=0.1), 1.0 / weights.sum(), PLAIN)
        assert slope_of_differences(problem, point, way) == pytest.approx(float(problem.at(point)[1] @ way), rel=1e-5)


def test_regularisers_and_hinge():
    root = np.random.default_rng(7).standard_normal((2, 3))
    metric, differences = root.T @ root, np.diag([1.0, 2.0, 3.0])
    expected = {
        "trace": np.trace(metric),
        "frobenius": (metric**2).sum() / 2,
        "similar": np.trace(metric @ differences @ differences) / 3,
    }
    for name, value in expected.items():
        parameters = Parameters(regulariser=name, regularisation=6.0)  # over three columns
        similar = differences if name == "similar" else None
        problem = Problem(np.zeros((1, 3)), 2, lambda z: (0.0, z), 1.0, parameters, similar)
        assert problem.at(root.ravel())[0] == pytest.approx(2 * value)
    excess = np.linspace(-1, 2, 31)
    exact, rounded = hinge(excess)[0], hinge(excess, 0.5)[0]
    assert ((exact - rounded >= -1e-15) & (exact - rounded <= 0.25 + 1e-15)).all()
    assert np.diff(rounded)[:9].max() == 0.0


def plain_value(name: str, rows: np.ndarray, labels: np.ndarray, metric: torch.Tensor) -> torch.Tensor:
    """Mean objective plus 0.1 tr(A) as a function of the matrix, by masks and without a map."""
    x, y = torch.tensor(rows), torch.tensor(labels)
    difference = x[:, None] - x[None]
    d = torch.einsum("nmd,de,nme->nm", difference, metric, difference)
    itself, same = torch.eye(len(x), dtype=torch.bool), y[:, None] == y
    if name == "mcml":
        ideal = (same & ~itself).double()
        ideal /= ideal.sum(1, keepdim=True)
        chances = (-d).masked_fill(itself, -1e9).log_softmax(1)
        total = (torch.special.xlogy(ideal, ideal) - ideal * chances).sum()
    elif name == "constraints":
        total = rounded(torch.where(same, d - 1.0, 4.0 - d))[~itself].sum() / 2
    else:
        near = torch.cdist(x, x).masked_fill(~same | itself, 1e9).topk(3, largest=False).indices
        near = d.gather(1, near)
        total = (
            0.5 * near.sum()
            + 0.5 * rounded(1.0 + near[:, :, None] - d[:, None, :])[~same[:, None].expand(-1, 3, -1)].sum()
        )
    return total / len(x) + 0.1 * metric.trace()


def rounded(excess: torch.Tensor) -> torch.Tensor:
    """A hinge whose corner has the width 0.001."""
    return torch.where(excess < 1e-3, excess.clamp(min=0) ** 2 / 2e-3, excess - 5e-4)


def projected_descent(name: str, rows: np.ndarray, labels: np.ndarray, steps: int) -> float:
    """The lowest value of many gradient steps over matrices, each projected on the positive semi-definite ones."""
    metric, length = torch.eye(3, dtype=torch.float64), 1e-2
    value = plain_value(name, rows, labels, metric)
    for _ in range(steps):
        leaf = metric.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(plain_value(name, rows, labels, leaf), leaf)
        values, vectors = torch.linalg.eigh(metric - length * (gradient + gradient.T) / 2)
        following = (vectors * values.clamp(min=0)) @ vectors.T
        reached = plain_value(name, rows, labels, following)
        if reached < value:
            metric, value, length = following, reached, 1.5 * length
        else:
            length /= 2
    return value.item()


@pytest.mark.parametrize("name", ["mcml", "lmnn", "constraints"])
def test_ten_starts_reach_the_optimum_to_a_millionth(name):
    """Convex in A: L-BFGS over the map ends at one value wherever it starts, not above projected descent over A."""
    rows, labels = sorted_blobs(45, seed=9)
    rows = rows / 2.0
    objective = {"mcml": mcml, "lmnn": lmnn, "constraints": constraints}[name](rows, labels, np.ones(45))
    problem = Problem(rows, 3, objective, 1.0 / 45, Parameters(regularisation=0.3, max_iter=3000, tol=1e-14))
    generator = np.random.default_rng(10)
    found = [problem.minimise(generator.standard_normal(9)) for _ in range(10)]
    metrics = [each.x.reshape(3, 3).T @ each.x.reshape(3, 3) for each in found]
    values = [each.fun for each in found]
    assert np.ptp(values) <= 1e-6 * values[0]
    assert max(np.abs(metric - metrics[0]).max() for metric in metrics) <= 1e-3 * np.abs(metrics[0]).max()
    assert values[0] == pytest.approx(plain_value(name, rows, labels, torch.tensor(metrics[0])).item(), rel=1e-9)
    assert max(values) <= projected_descent(name, rows, labels, 200) * (1 + 1e-6)


def test_the_exact_hinge_ends_within_a_millionth_when_corners_are_sharpened_in_turn():
    rows, labels = sorted_blobs(45, seed=9)
    rows, parameters = rows / 2.0, Parameters(regularisation=0.0, max_iter=2000, tol=1e-15)
    values = []
    for seed in range(10):
        point = np.random.default_rng(seed).standard_normal(9)
        for smooth in (1e-1, 1e-3, 1e-5, 1e-7):
            rounded_corner = lmnn(rows, labels, np.ones(45), smooth=smooth)
            point = Problem(rows, 3, rounded_corner, 1.0 / 45, parameters).minimise(point).x
        exact = lmnn(rows, labels, np.ones(45), smooth=0.0)
        values.append(Problem(rows, 3, exact, 1.0 / 45, parameters).at(point)[0])
    assert np.ptp(values) <= 1e-6 * values[0]
