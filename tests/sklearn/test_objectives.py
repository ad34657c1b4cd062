"""Values against worked numbers and plain loops, gradients against autograd, one optimum from ten starts."""

from functools import partial

import numpy as np
import pytest
import torch

from similis.sklearn.features import Features, check_kernel, kernel_features
from similis.sklearn.margins import constraints, hinge, lmnn, pair_hinges, target_neighbours, tuple_problem
from similis.sklearn.neighbours import mcml, nca
from similis.sklearn.problem import (
    Penalty,
    Problem,
    covariance,
    factor,
    group_rows,
    psd_projection,
    squared_distances,
    whitening,
)
from similis.sklearn.solvers import minimise_lbfgs, minimise_on_cone
from similis.values import UserError
from tests.sklearn.worked import LABELS, MAP, ROWS, blobs


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
    white = ROWS @ whitening(spread).T
    assert np.linalg.norm(white[0] - white[3]) == pytest.approx(2.53012385, abs=1e-6)
    assert covariance(white) == pytest.approx(np.eye(2), abs=1e-12)
    inverse = squared_distance(ROWS[0], ROWS[3], np.linalg.inv(spread))
    assert np.sqrt(inverse) == pytest.approx(2.53012385, abs=1e-6)
    assert psd_projection(np.array([[1.0, 2.0], [2.0, 1.0]])) == pytest.approx(1.5 * np.ones((2, 2)), abs=1e-12)


def test_worked_numbers_of_objectives():
    groups, z = group_rows(LABELS), ROWS @ MAP.T
    assert mcml(ROWS, groups)(z, z)[0] == pytest.approx(4.40169659, abs=1e-6)
    assert -nca(ROWS, groups, form="sum")(z, z)[0] == pytest.approx(2.46720087, abs=1e-6)
    pull, push, both = (lmnn(ROWS, groups, mu=mu, neighbors=1, smooth=0.0)(ROWS, ROWS)[0] for mu in (0.0, 1.0, 0.5))
    assert (pull, push) == pytest.approx((5.22, 7.54), abs=1e-6)
    assert both == pytest.approx(6.38, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [("rbf", {"gamma": 0.5}, 1.31956039), ("poly", {"gamma": 1.0, "degree": 2, "coef0": 1.0}, 4.99080154)],
)
def test_worked_numbers_of_kernels(name, options, expected):
    features = kernel_features(name, options, Features(np.zeros(2), np.ones(2)), ROWS, np.arange(5))
    k = features.columns(ROWS)
    assert np.sqrt(k[0, 0] - 2 * k[0, 3] + k[3, 3]) == pytest.approx(expected, abs=1e-6)
    mapped = features.transform(ROWS)
    assert np.linalg.norm(mapped[0] - mapped[3]) == pytest.approx(expected, abs=1e-6)


def test_a_polynomial_needs_a_whole_degree_and_a_kernel_no_negative_eigenvalue():
    for degree in (1.5, 2.0, 0, True):
        with pytest.raises(UserError, match="whole number"):
            check_kernel("poly", None, degree, 1.0)
    with pytest.raises(UserError, match="coef0"):
        check_kernel("poly", None, 2, -1.0)
    plain = Features(np.zeros(2), np.ones(2))
    with pytest.raises(UserError, match="eigenvalue"):
        kernel_features("precomputed", {}, plain, np.array([[1.0, 2.0], [2.0, 1.0]]), np.arange(2))


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
    monkeypatch.setattr("similis.sklearn.neighbours.BLOCK_ROWS", block)
    rows, labels = blobs(13, 3, seed=4)
    labels[-1] = 7  # a class of one row: no anchor, still a neighbour of others
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 13) if weighted else np.ones(13)
    groups = group_rows(labels, weights)
    rows, labels = rows[groups.order], labels[groups.order]
    targets = target_neighbours(rows, groups, 2)
    start = 0.4 * np.random.default_rng(2).standard_normal((2, 3))
    components = torch.tensor(start, requires_grad=True)
    loop = loop_value(name, torch.tensor(rows) @ components.T, labels.tolist(), groups.weights.tolist(), targets)
    loop.backward()
    share = 1.0 / weights.sum()
    value, gradient = Problem(rows, OBJECTIVES[name](rows, groups), share).at_map(start)
    assert value == pytest.approx(share * loop.item(), rel=1e-10)
    assert gradient == pytest.approx(share * components.grad.numpy(), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_the_gradient_by_the_matrix_is_that_of_differences(name):
    rows, labels = blobs(15, 3, seed=5)
    groups = group_rows(labels)
    rows = rows[groups.order]
    problem = Problem(rows, OBJECTIVES[name](rows, groups), 1.0 / 15)
    root = 0.3 * np.random.default_rng(3).standard_normal((3, 3))
    metric = root.T @ root + 0.1 * np.eye(3)
    way = np.random.default_rng(4).standard_normal((3, 3))
    way = way + way.T
    step = 1e-6
    slope = (problem.at_metric(metric + step * way)[0] - problem.at_metric(metric - step * way)[0]) / (2 * step)
    assert slope == pytest.approx(float((problem.at_metric(metric)[1] * way).sum()), rel=1e-5)


def test_given_pairs_and_triplets_have_the_gradient_of_differences():
    generator = np.random.default_rng(6)
    triplets = generator.standard_normal((12, 3, 3))
    weights = generator.uniform(0.5, 2.0, 12)
    options = {"upper": 1.0, "lower": 4.0, "margin": 1.0, "smooth": 0.1}
    penalty = Penalty("trace", 0.0)
    problems = [
        tuple_problem(triplets[:, :2], np.arange(12) % 2 == 0, weights, options, penalty),
        tuple_problem(triplets, None, weights, options, penalty),
    ]
    start = generator.standard_normal((2, 3))
    way = generator.standard_normal((2, 3))
    for problem in problems:
        slope = (problem.at_map(start + 1e-6 * way)[0] - problem.at_map(start - 1e-6 * way)[0]) / 2e-6
        assert slope == pytest.approx(float((problem.at_map(start)[1] * way).sum()), rel=1e-5)
        by_map, by_metric = problem.at_map(start), problem.at_metric(start.T @ start)
        assert by_map[0] == pytest.approx(by_metric[0], rel=1e-12)
        assert by_map[1] == pytest.approx(2 * start @ by_metric[1], rel=1e-9)


def test_regularisers_and_hinge():
    root = np.random.default_rng(7).standard_normal((2, 3))
    metric, scatter = root.T @ root, np.diag([1.0, 2.0, 3.0])
    assert Penalty("trace", 2.0).at_metric(metric)[0] == pytest.approx(2 * np.trace(metric))
    assert Penalty("frobenius", 1.0).at_metric(metric)[0] == pytest.approx((metric**2).sum() / 2)
    assert Penalty("similar", 1.0, scatter).at_metric(metric)[0] == pytest.approx(np.trace(metric @ scatter))
    excess = np.linspace(-1, 2, 31)
    exact, rounded = hinge(excess)[0], hinge(excess, 0.5)[0]
    assert ((exact - rounded >= -1e-15) & (exact - rounded <= 0.25 + 1e-15)).all()
    assert np.diff(rounded)[:9].max() == 0.0


def test_factor_gives_the_matrix_back_and_its_nearest_of_low_rank():
    root = np.random.default_rng(8).standard_normal((4, 4))
    metric = root.T @ root
    assert factor(metric).T @ factor(metric) == pytest.approx(metric, abs=1e-10)
    low = factor(metric, 2)
    assert np.linalg.norm(metric - low.T @ low) == pytest.approx(np.linalg.norm(np.linalg.eigvalsh(metric)[:2]))


@pytest.mark.parametrize("name", ["mcml", "lmnn"])
def test_ten_starts_reach_one_optimum_to_a_millionth(name):
    """Convex in A: L-BFGS over the map and projected gradients over the cone agree wherever they start."""
    rows, labels = blobs(45, 3, seed=9)
    groups = group_rows(labels)
    rows = rows[groups.order] / 2.0
    problem = Problem(rows, (mcml if name == "mcml" else lmnn)(rows, groups), 1.0 / 45)
    generator = np.random.default_rng(10)
    values, metrics = [], []
    for _ in range(10):
        start = generator.standard_normal((3, 3))
        solved = minimise_lbfgs(problem.at_map, start, max_iter=3000, tol=1e-14)
        values.append(solved.value)
        metrics.append(solved.point.T @ solved.point)
    assert np.ptp(values) <= 1e-6 * abs(values[0])
    assert max(np.abs(metric - metrics[0]).max() for metric in metrics) <= 1e-3 * np.abs(metrics[0]).max()
    cone = minimise_on_cone(problem.at_metric, np.eye(3), max_iter=600, tol=1e-9)
    assert cone.value == pytest.approx(min(values), rel=1e-6)
    gradient = problem.at_metric(cone.point)[1]  # at the optimum: positive semi-definite and orthogonal to A
    assert np.linalg.eigvalsh(gradient)[0] >= -1e-4
    assert abs(float((gradient * cone.point).sum())) <= 1e-5


def test_the_exact_hinge_ends_within_a_millionth_when_corners_are_sharpened_in_turn():
    rows, labels = blobs(45, 3, seed=9)
    groups = group_rows(labels)
    rows = rows[groups.order] / 2.0
    values = []
    for seed in range(10):
        point = np.random.default_rng(seed).standard_normal((3, 3))
        for smooth in (1e-1, 1e-3, 1e-5, 1e-7):
            problem = Problem(rows, lmnn(rows, groups, smooth=smooth), 1.0 / 45)
            point = minimise_lbfgs(problem.at_map, point, max_iter=2000, tol=1e-15).point
        values.append(Problem(rows, lmnn(rows, groups, smooth=0.0), 1.0 / 45).at_map(point)[0])
    assert np.ptp(values) <= 1e-6 * values[0]
