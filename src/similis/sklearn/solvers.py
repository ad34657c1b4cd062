"""Solvers for a whole table: L-BFGS over the map, and projected gradients over the cone of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from similis.sklearn.matrix import Array, psd_projection
from similis.values import import_extra

Function = Callable[[Array], tuple[float, Array]]


class Solved(NamedTuple):
    """Where a solver stopped: the point, its value, steps taken, and whether the tolerance was met."""

    point: Array
    value: float
    steps: int
    converged: bool


def lbfgs(function: Function, start: Array, *, max_iter: int, tol: float) -> Solved:
    """Minimise by L-BFGS (scipy); stops when a step gains less than ``tol`` times the value.

    Args:
        function: point -> value and gradient of the point's shape.
        start: first point, any shape.
        max_iter: most steps; 0 for the value at the start.
        tol: relative gain of a step, also the largest entry of the gradient, at which to stop.

    Example:
        >>> bool(lbfgs(lambda x: (float((x - 3.0) @ (x - 3.0)), 2 * (x - 3.0)), np.zeros(2), max_iter=9, tol=1e-9)[3])
        True
    """

    def flat(vector: Array) -> tuple[float, Array]:
        value, gradient = function(vector.reshape(start.shape))
        return value, np.asarray(gradient, dtype=np.float64).ravel()

    if max_iter < 1:  # scipy would take one step
        return Solved(start, function(start)[0], 0, False)
    options = {"maxiter": max_iter, "ftol": tol, "gtol": tol, "maxcor": 20}
    found = import_extra("scipy.optimize").minimize(flat, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return Solved(found.x.reshape(start.shape), float(found.fun), int(found.nit), bool(found.success))


def projected(function: Function, start: Array, *, max_iter: int, tol: float) -> Solved:
    """Minimise over positive semi-definite matrices: accelerated gradient steps, each projected on the cone.

    A step is halved until the quadratic model bounds the function; momentum restarts when it points uphill.
    Stops when the projected step is shorter than ``tol`` relative to the matrix.

    Args:
        function: matrix -> value and symmetric gradient; convex.
        start: first matrix (D, D).
        max_iter: most steps.
        tol: relative length of a step at which to stop.

    Reference: Beck, Teboulle: A Fast Iterative Shrinkage-Thresholding Algorithm, 2009; restart as O'Donoghue, Candes.

    Example:
        >>> away = np.diag([1.0, -1.0])
        >>> distance = lambda a: (float(((a - away) ** 2).sum()), 2 * (a - away))
        >>> projected(distance, np.eye(2), max_iter=50, tol=1e-9).point.round(6).tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """
    point = psd_projection(start)
    ahead, momentum, length = point, 1.0, 1.0
    value = function(point)[0]
    for step in range(1, max_iter + 1):
        value_ahead, gradient = function(ahead)
        following, following_value, length = shortened(function, ahead, value_ahead, gradient, length * 2.0)
        moved = following - point
        if float(((ahead - following) * moved).sum()) > 0 and momentum > 1.0:  # uphill: start the momentum anew
            ahead, momentum = point, 1.0
            continue
        size = max(1.0, float(np.linalg.norm(point)))
        done = float(np.linalg.norm(following - ahead)) <= tol * size and float(np.linalg.norm(moved)) <= tol * size
        following_momentum = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = following + (momentum - 1.0) / following_momentum * moved
        point, value, momentum = following, following_value, following_momentum
        if done:
            return Solved(point, value, step, True)
    return Solved(point, value, max_iter, False)


def shortened(
    function: Function, ahead: Array, value: float, gradient: Array, length: float
) -> tuple[Array, float, float]:
    """The first projected step, halving its length, that the quadratic model at ``ahead`` bounds from above."""
    while True:
        following = psd_projection(ahead - length * gradient)
        moved = following - ahead
        reached = function(following)[0]
        model = value + float((gradient * moved).sum()) + float((moved * moved).sum()) / (2.0 * length)
        if reached <= model + 1e-13 * abs(value) or length < 1e-20:
            return following, reached, length
        length /= 2.0
