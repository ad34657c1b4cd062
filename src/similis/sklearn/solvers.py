"""Solvers: L-BFGS over the map, projected gradients over the cone of matrices, Adam on minibatches of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize

from similis.sklearn.problem import Array, IntArray, psd_projection

Function = Callable[[Array], tuple[float, Array]]  # point -> value and gradient
CLASS_ROWS = 4  # rows of a class in a batch; with more classes than that allows, some are drawn for each batch


class Solution(NamedTuple):
    """Where a solver stopped: the point, its value, the steps taken, and whether the tolerance was met."""

    point: Array
    value: float
    steps: int
    converged: bool
    sphere: bool = False  # whether mapped rows belong on the unit sphere


def minimise_lbfgs(function: Function, start: Array, *, max_iter: int, tol: float) -> Solution:
    """Minimise by L-BFGS until a step gains less than ``tol`` relative to the value, or for ``max_iter`` steps."""

    def evaluate_flat(vector: Array) -> tuple[float, Array]:
        value, gradient = function(vector.reshape(start.shape))
        return value, gradient.ravel()

    if max_iter < 1:  # scipy would take one step
        return Solution(start, function(start)[0], 0, False)
    options = {"maxiter": max_iter, "ftol": tol, "gtol": tol, "maxcor": 20}
    found = minimize(evaluate_flat, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return Solution(found.x.reshape(start.shape), float(found.fun), int(found.nit), bool(found.success))


def minimise_on_cone(function: Function, start: Array, *, max_iter: int, tol: float) -> Solution:
    """Minimise over positive semi-definite matrices: accelerated gradient steps, each projected on the cone.

    Momentum restarts when it points uphill. Stops when a step is shorter than ``tol`` relative to the matrix (D, D).

    Reference: Beck, Teboulle: A Fast Iterative Shrinkage-Thresholding Algorithm, 2009; restart as O'Donoghue, Candes.

    Example:
        >>> away = np.diag([1.0, -1.0])
        >>> distance = lambda a: (float(((a - away) ** 2).sum()), 2 * (a - away))
        >>> minimise_on_cone(distance, np.eye(2), max_iter=50, tol=1e-9).point.round(6).tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """
    point = psd_projection(start)
    ahead, momentum, length = point, 1.0, 1.0
    value = function(point)[0]
    for step in range(1, max_iter + 1):
        following, following_value, length = search_step(function, ahead, length * 2.0)
        moved = following - point
        if float(((ahead - following) * moved).sum()) > 0 and momentum > 1.0:  # uphill: start the momentum anew
            ahead, momentum = point, 1.0
            continue
        limit = tol * max(1.0, float(np.linalg.norm(point)))
        following_momentum = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        converged = bool(max(np.linalg.norm(following - ahead), np.linalg.norm(moved)) <= limit)
        ahead = following + (momentum - 1.0) / following_momentum * moved
        point, value, momentum = following, following_value, following_momentum
        if converged:
            return Solution(point, value, step, True)
    return Solution(point, value, max_iter, False)


def search_step(function: Function, ahead: Array, length: float) -> tuple[Array, float, float]:
    """The first projected step, halving its length, that the quadratic model at ``ahead`` bounds from above."""
    value, gradient = function(ahead)
    while True:
        following = psd_projection(ahead - length * gradient)
        moved = following - ahead
        reached = function(following)[0]
        model = value + float((gradient * moved).sum()) + float((moved * moved).sum()) / (2.0 * length)
        if reached <= model + 1e-13 * abs(value) or length < 1e-20:
            return following, reached, length
        length /= 2.0


def minimise_adam(
    batch_function: Callable[[IntArray], Function],
    start: Array,
    batches: Iterator[IntArray],
    *,
    steps: int,
    epochs: int,
    rate: float,
) -> Solution:
    """Minimise the functions of batches of rows, ``steps`` in each epoch; the value is the mean of the last epoch.

    The rate falls to 0 in a straight line.
    """
    point = torch.nn.Parameter(torch.tensor(start))
    optimiser = torch.optim.Adam([point], lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1.0 - step / (epochs * steps))
    values: list[float] = []
    for index in batches:
        value, gradient = batch_function(index)(point.detach().numpy())
        values.append(value)
        point.grad = torch.from_numpy(gradient)
        optimiser.step()
        schedule.step()
    return Solution(point.detach().numpy(), float(np.mean(values[-steps:])), len(values), True)


def row_batches(
    labels: IntArray, draws: Array | None, size: int, epochs: int, generator: np.random.Generator
) -> Iterator[IntArray]:
    """Row numbers of each batch, epoch after epoch.

    Every row comes once an epoch in a new order, but for the rest that fills no batch. With ``draws``, rows are drawn
    with replacement. With too many classes for a batch, it holds a few rows of some of them.
    """
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
    few = len(members) * CLASS_ROWS > size
    for _ in range(epochs):
        order = None if few or draws is not None else generator.permutation(len(labels))
        for first in range(0, len(labels) - size + 1, size):
            if few:
                yield draw_few_rows(members, size, generator)
            elif order is None:
                yield generator.choice(len(labels), size, p=draws)
            else:
                yield order[first : first + size]


def draw_few_rows(members: list[IntArray], size: int, generator: np.random.Generator) -> IntArray:
    """Up to four rows of each of some classes; ``members`` are the rows of each class."""
    chosen = generator.permutation(len(members))[: max(2, size // CLASS_ROWS)]
    rows = (members[number] for number in chosen)
    return np.concatenate(
        [own if len(own) <= CLASS_ROWS else generator.choice(own, CLASS_ROWS, replace=False) for own in rows]
    )
