"""Values against worked numbers and plain loops, gradients against autograd, one optimum from ten starts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from similis.sklearn.groups import Groups, grouped, nearest_of_class
from similis.sklearn.kernels import checked_kernel, kernel_matrix, with_landmarks
from similis.sklearn.margins import constraints, hinge, lmnn, lmnn_parts, pair_hinges, relative_hinges
from similis.sklearn.matrix import (
    Penalty,
    all_distances,
    covariance,
    factor,
    pair_distances,
    penalised,
    psd_projection,
    whitening,
)
from similis.sklearn.neighbours import mcml, nca_log, nca_sum
from similis.sklearn.problem import Labelled, Paired, Related, with_penalty, with_penalty_of_metric
from similis.sklearn.solvers import lbfgs, projected
from similis.sklearn.streamed import Neighbourhood
from similis.values import UserError
from tests.sklearn.worked import LABELS, MAP, ROWS, blobs


def with_targets(rows: np.ndarray, groups: Groups, neighbors: int) -> Groups:
    return replace(groups, targets=nearest_of_class(all_distances(rows), groups, neighbors))


def test_worked_numbers_of_distances_and_hinges():
    metric = MAP.T @ MAP
    x = ROWS
    assert pair_distances(x[:1], x[1:2], metric)[0] == pytest.approx(1.1492, abs=1e-6)
    assert pair_distances(x[:1], x[3:4], metric)[0] == pytest.approx(4.4257, abs=1e-6)
    near, far, other = (pair_distances(x[:1], x[i : i + 1], metric) for i in (1, 3, 2))
    assert pair_hinges(near, np.array([True]), upper=0.5)[0][0] == pytest.approx(0.6492, abs=1e-6)
    assert pair_hinges(far, np.array([False]), lower=5.0)[0][0] == pytest.approx(0.5743, abs=1e-6)
    assert relative_hinges(near, other, margin=1.0)[0][0] == pytest.approx(0.8692, abs=1e-6)


def test_worked_numbers_of_matrices():
    spread = covariance(ROWS)
    white = ROWS @ whitening(spread).T
    assert np.linalg.norm(white[0] - white[3]) == pytest.approx(2.53012385, abs=1e-6)
    assert covariance(white) == pytest.approx(np.eye(2), abs=1e-12)
    inverse = pair_distances(ROWS[:1], ROWS[3:4], np.linalg.inv(spread))[0]
    assert np.sqrt(inverse) == pytest.approx(2.53012385, abs=1e-6)
    assert psd_projection(np.array([[1.0, 2.0], [2.0, 1.0]])) == pytest.approx(1.5 * np.ones((2, 2)), abs=1e-12)


def test_worked_numbers_of_objectives():
    groups = grouped(LABELS)
    mapped = all_distances(ROWS @ MAP.T)
    assert mcml(mapped, groups)[0] == pytest.approx(4.40169659, abs=1e-6)
    assert -nca_sum(mapped, groups)[0] == pytest.approx(2.46720087, abs=1e-6)
    own = with_targets(ROWS, groups, 1)
    pull, push, _ = lmnn_parts(all_distances(ROWS), own, 0.5, 0.0)
    assert (pull, push) == pytest.approx((5.22, 7.54), abs=1e-6)
    assert lmnn(all_distances(ROWS), own)[0] == pytest.approx(6.38, abs=1e-6)


@pytest.mark.parametrize(("name", "gamma", "expected"), [("rbf", 0.5, 1.31956039), ("poly", None, 4.99080154)])
def test_worked_numbers_of_kernels(name, gamma, expected):
    kernel = checked_kernel(name, gamma, 2, 1.0, 2)
    k = kernel_matrix(kernel, ROWS, ROWS)
    assert np.sqrt(k[0, 0] - 2 * k[0, 3] + k[3, 3]) == pytest.approx(expected, abs=1e-6)
    made = with_landmarks(kernel, ROWS, 10, 0)
    features = made.columns(ROWS) @ made.basis
    assert np.linalg.norm(features[0] - features[3]) == pytest.approx(expected, abs=1e-6)


def test_a_polynomial_needs_a_whole_degree_and_a_kernel_no_negative_eigenvalue():
    for degree in (1.5, 2.0, 0, True):
        with pytest.raises(UserError, match="whole number"):
            checked_kernel("poly", None, degree, 1.0, 2)
    with pytest.raises(UserError, match="coef0"):
        checked_kernel("poly", None, 2, -1.0, 2)
    with pytest.raises(UserError, match="eigenvalue"):
        with_landmarks(checked_kernel("precomputed", None, 2, 1.0, 2), np.array([[1.0, 2.0], [2.0, 1.0]]), 9, 0)


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


OBJECTIVES = {"nca_log": nca_log, "nca_sum": nca_sum, "mcml": mcml, "lmnn": lmnn}


@pytest.mark.parametrize("name", list(OBJECTIVES))
@pytest.mark.parametrize("weighted", [False, True])
def test_values_and_gradients_are_those_of_plain_loops_by_autograd(name, weighted):
    rows, labels = blobs(13, 3, seed=4)
    labels[-1] = 7  # a class of one row: no anchor, still a neighbour of others
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 13) if weighted else np.ones(13)
    groups = grouped(labels, weights)
    rows, labels = rows[groups.order], labels[groups.order]
    groups = with_targets(rows, groups, 2)
    start = 0.4 * np.random.default_rng(2).standard_normal((2, 3))
    components = torch.tensor(start, requires_grad=True)
    loop = loop_value(name, torch.tensor(rows) @ components.T, labels.tolist(), groups.weights.tolist(), groups.targets)
    loop.backward()
    share = 1.0 / weights.sum()
    problems = [Labelled(rows, groups, OBJECTIVES[name])]
    if name == "nca_log":
        problems.append(Neighbourhood(rows, groups))
    for problem in problems:
        value, gradient = problem.of_map(start)
        assert value == pytest.approx(share * loop.item(), rel=1e-10)
        assert gradient == pytest.approx(share * components.grad.numpy(), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", [*OBJECTIVES, "constraints"])
def test_the_gradient_by_the_matrix_is_that_of_differences(name):
    rows, labels = blobs(15, 3, seed=5)
    groups = grouped(labels)
    rows = rows[groups.order]
    groups = with_targets(rows, groups, 2)
    objective = constraints if name == "constraints" else OBJECTIVES[name]
    problem = Labelled(rows, groups, objective)
    root = 0.3 * np.random.default_rng(3).standard_normal((3, 3))
    metric = root.T @ root + 0.1 * np.eye(3)
    way = np.random.default_rng(4).standard_normal((3, 3))
    way = way + way.T
    step = 1e-6
    slope = (problem.of_metric(metric + step * way)[0] - problem.of_metric(metric - step * way)[0]) / (2 * step)
    assert slope == pytest.approx(float((problem.of_metric(metric)[1] * way).sum()), rel=1e-5)


def test_given_pairs_and_triplets_have_the_gradient_of_differences():
    generator = np.random.default_rng(6)
    a, b = generator.standard_normal((2, 12, 3))
    weights = generator.uniform(0.5, 2.0, 12)
    problems = [Paired(a, np.arange(12) % 2 == 0, weights, 1.0, 4.0, 0.1), Related(a, b, weights, 1.0, 0.1)]
    start = generator.standard_normal((2, 3))
    way = generator.standard_normal((2, 3))
    for problem in problems:
        slope = (problem.of_map(start + 1e-6 * way)[0] - problem.of_map(start - 1e-6 * way)[0]) / 2e-6
        assert slope == pytest.approx(float((problem.of_map(start)[1] * way).sum()), rel=1e-5)
        by_map, by_metric = problem.of_map(start), problem.of_metric(start.T @ start)
        assert by_map[0] == pytest.approx(by_metric[0], rel=1e-12)
        assert by_map[1] == pytest.approx(2 * start @ by_metric[1], rel=1e-9)


def test_regularisers_and_hinge():
    root = np.random.default_rng(7).standard_normal((2, 3))
    metric, scatter = root.T @ root, np.diag([1.0, 2.0, 3.0])
    assert penalised(Penalty("trace", 2.0), metric)[0] == pytest.approx(2 * np.trace(metric))
    assert penalised(Penalty("frobenius", 1.0), metric)[0] == pytest.approx((metric**2).sum() / 2)
    assert penalised(Penalty("similar", 1.0, scatter), metric)[0] == pytest.approx(np.trace(metric @ scatter))
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
    groups = grouped(labels)
    rows = rows[groups.order] / 2.0
    groups = with_targets(rows, groups, 3)
    problem = Labelled(rows, groups, mcml if name == "mcml" else partial(lmnn, smooth=1e-3))
    penalty = Penalty("trace", 0.0)
    generator = np.random.default_rng(10)
    values, metrics = [], []
    for _ in range(10):
        start = generator.standard_normal((3, 3))
        solved = lbfgs(lambda g: with_penalty(problem, penalty, g), start, max_iter=3000, tol=1e-14)
        values.append(solved.value)
        metrics.append(solved.point.T @ solved.point)
    assert np.ptp(values) <= 1e-6 * abs(values[0])
    assert max(np.abs(metric - metrics[0]).max() for metric in metrics) <= 1e-3 * np.abs(metrics[0]).max()
    cone = projected(lambda a: with_penalty_of_metric(problem, penalty, a), np.eye(3), max_iter=600, tol=1e-9)
    assert cone.value == pytest.approx(min(values), rel=1e-6)
    gradient = problem.of_metric(cone.point)[1]  # at the optimum: positive semi-definite and orthogonal to A
    assert np.linalg.eigvalsh(gradient)[0] >= -1e-4
    assert abs(float((gradient * cone.point).sum())) <= 1e-5


def test_the_exact_hinge_ends_within_a_millionth_when_corners_are_sharpened_in_turn():
    rows, labels = blobs(45, 3, seed=9)
    groups = grouped(labels)
    rows = rows[groups.order] / 2.0
    groups = with_targets(rows, groups, 3)
    values = []
    for seed in range(10):
        point = np.random.default_rng(seed).standard_normal((3, 3))
        for smooth in (1e-1, 1e-3, 1e-5, 1e-7):
            problem = Labelled(rows, groups, partial(lmnn, smooth=smooth))
            point = lbfgs(problem.of_map, point, max_iter=2000, tol=1e-15).point
        values.append(Labelled(rows, groups, lmnn).of_map(point)[0])
    assert np.ptp(values) <= 1e-6 * values[0]
