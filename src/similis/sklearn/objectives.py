"""Objectives: random neighbours (NCA, MCML), hinges (LMNN, constraints on pairs and triplets), registered losses.

An objective takes mapped rows z (n, r), in the order of their classes, and returns its value and its gradient by z.
With w_ij its derivative by the squared distance of rows i and j, that is 2 L z, L the Laplacian of w + w^T.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn.utils import vector_to_parameters

from similis.objective.loss import Loss, loss
from similis.registry import check_known
from similis.sklearn.features import Array, IntArray, class_blocks, squared_distances, to_dense
from similis.values import OptionValue, UserError

Objective = Callable[..., tuple[Any, ...]]  # z, and the vector of what a loss learns -> value, gradient by each
# A metric is Euclidean after a map; losses that can be measured so are, unless the user asks otherwise.
EUCLIDEAN: dict[str, dict[str, OptionValue]] = {
    "contrastive": {"geometry": "hadsell", "margin": 2.0},
    "triplet": {"geometry": "euclid2", "margin": 1.0},
}
BLOCK_ROWS = 96  # anchors at a time: their exponents stay in the cache between the products
LEAST_EXPONENT = -100.0  # e^-100 of the largest is nothing in double precision; smaller ones would be slow subnormals


def nca(_rows: Any, labels: IntArray, weights: Array, *, form: str = "log") -> Objective:
    r"""Neighbourhood components analysis: a random neighbour should have the class of its anchor.

    .. math::
        p_{ij} \propto w_j e^{-d_{ij}}, \quad p_i = \sum_{j \in P_i} p_{ij}, \qquad
        \text{log: } -\sum_i w_i \log p_i, \qquad \text{sum: } -\sum_i w_i p_i

    Reference: Goldberger, Roweis, Hinton, Salakhutdinov, NIPS 2004.
    """
    check_known("form", form, ["log", "sum"])
    return lambda z: random_neighbours(z, labels, weights, form)


def mcml(_rows: Any, labels: IntArray, weights: Array) -> Objective:
    r"""Maximally collapsing metric learning: a random neighbour should be uniform on its class; convex in A.

    .. math::
        \sum_i w_i \mathrm{KL}(p^0_i \,\|\, p_i), \qquad p^0_{ij} \propto w_j [j \in P_i]

    Reference: Globerson, Roweis: Metric Learning by Collapsing Classes, NIPS 2005.
    """
    return lambda z: random_neighbours(z, labels, weights, "collapse")


def random_neighbours(z: Array, labels: IntArray, weights: Array, form: str) -> tuple[float, Array]:
    """NCA (``log``, ``sum``) or MCML (``collapse``) in blocks of anchors, with memory linear in the rows."""
    logs, extended = np.log(weights), np.hstack([z, np.ones((len(z), 1))])  # ones yield the sums of the Laplacian
    offsets = logs - np.einsum("nr,nr->n", z, z)
    gathered = np.zeros_like(extended)  # row i: the sum over j of (w_ij + w_ji) (z_j, 1)
    value = 0.0
    for own in class_blocks(labels):
        for first in range(own.start, own.stop if own.stop - own.start > 1 else own.start, BLOCK_ROWS):
            block = slice(first, min(first + BLOCK_ROWS, own.stop))
            exponents = 2.0 * z[block] @ z.T
            exponents += offsets
            np.fill_diagonal(exponents[:, block], -np.inf)
            scores = exponents[:, own].copy()
            near, near_log = softmax(np.where(np.isneginf(scores), scores, logs[own]) if form == "collapse" else scores)
            if form == "collapse":
                near_log += (near * np.nan_to_num(scores - logs[own], neginf=0.0)).sum(1)
            gradients, every_log = softmax(exponents)
            gap = every_log - near_log  # -log p_i of NCA
            counts = weights[block] * (np.exp(-gap) if form == "sum" else 1.0)
            value += float((-counts if form == "sum" else counts * gap).sum())
            gradients[:, own] -= near
            gradients *= -counts[:, None]
            gathered[block] += gradients @ extended
            gathered += gradients.T @ extended[block]
    return value, 2.0 * (gathered[:, -1:] * z - gathered[:, :-1])


def softmax(exponents: Array) -> tuple[Array, Array]:
    """Softmax of each row, written in place, and the logarithms of the sums of exponentials."""
    top = exponents.max(1, keepdims=True)
    exponents -= top
    np.exp(np.maximum(exponents, LEAST_EXPONENT, out=exponents), out=exponents)
    sums = exponents.sum(1, keepdims=True)
    exponents /= sums
    return exponents, (top + np.log(sums))[:, 0]


def lmnn(
    rows: Any, labels: IntArray, weights: Array, *, mu: float = 0.5, neighbors: int = 3, smooth: float = 1e-3
) -> Objective:
    r"""Large margin nearest neighbours: targets are near, rows of other classes a margin farther; convex in A.

    .. math::
        (1 - \mu) \sum_{i, j \in T_i} w_i d_{ij} + \mu \sum_{i, j \in T_i} \sum_{l : y_l \ne y_i} w_i w_l
        [1 + d_{ij} - d_{il}]_+

    Targets T_i are the nearest ``neighbors`` of the class before learning, which makes the objective convex. On
    minibatches they are the nearest within the batch. ``smooth`` is the width of the hinge's rounded corner.

    Reference: Weinberger, Saul: Distance Metric Learning for Large Margin Nearest Neighbor Classification, JMLR 2009.
    """
    if neighbors < 1 or not 0 <= mu <= 1:
        raise UserError(f"lmnn got neighbors={neighbors}, mu={mu}; neighbors is 1 or more, mu lies in [0, 1]")
    blocks = class_blocks(labels)
    targets = target_neighbours(to_dense(rows), blocks, neighbors)

    def evaluate(z: Array) -> tuple[float, Array]:
        distances = squared_distances(z)
        near = np.take_along_axis(distances, targets, axis=1)
        limits = np.where(targets >= 0, 1.0 + near, -np.inf)
        pulls = (1 - mu) * np.where(targets >= 0, weights[:, None], 0.0)
        for block in blocks:
            distances[block, block] = np.inf
        row, column = np.nonzero(distances < limits.max(1)[:, None])  # few pairs are active: the rest stays untouched
        push, derivative = hinge(limits[row] - distances[row, column][:, None], smooth)
        both = mu * (weights[row] * weights[column])[:, None]
        value = float((pulls * near).sum() + (both * push).sum())
        pushes = both * derivative
        pulls += np.stack([np.bincount(row, one, minlength=len(z)) for one in pushes.T], axis=1)
        pair = np.zeros_like(distances)
        pair[row, column] = -pushes.sum(1)
        np.add.at(pair, (np.arange(len(z))[:, None], targets), pulls)
        return value, laplacian_gradient(pair + pair.T, z)

    return evaluate


def target_neighbours(rows: Array, blocks: list[slice], neighbors: int) -> IntArray:
    """Numbers (n, k) of the nearest rows of the own class, self left out; -1 where a class is too small."""
    found = np.full((len(rows), neighbors), -1, dtype=np.int64)
    for block in blocks:
        own = squared_distances(rows[block])
        np.fill_diagonal(own, np.inf)
        number = min(neighbors, len(own) - 1)
        found[block, :number] = np.argsort(own, axis=1, kind="stable")[:, :number] + block.start
    return found


def constraints(
    _rows: Any, labels: IntArray, weights: Array, *, upper: float = 1.0, lower: float = 4.0, margin: float = 1.0,
    smooth: float = 1e-3,
) -> Objective:  # fmt: skip
    """Pairs of one class nearer than ``upper``, others farther than ``lower`` (:func:`pair_hinges`); convex in A.

    Every unordered pair counts once. ``margin`` is for triplets, see :func:`tuple_constraints`.

    Reference: Xing, Ng, Jordan, Russell, NIPS 2002; Schultz, Joachims, NIPS 2003.
    """
    del margin
    similar, both = labels[:, None] == labels, np.outer(weights, weights)
    np.fill_diagonal(both, 0.0)

    def evaluate(z: Array) -> tuple[float, Array]:
        value, derivative = pair_hinges(squared_distances(z), similar, upper, lower, smooth)
        return 0.5 * float(np.vdot(both, value)), laplacian_gradient(both * derivative, z)

    return evaluate


def tuple_constraints(
    similar: Any, weights: Array, *, upper: float = 1.0, lower: float = 4.0, margin: float = 1.0, smooth: float = 1e-3
) -> Objective:
    r"""Constraints on given pairs, ``similar`` (n,), or on triplets for None; the rows are differences x_i - x_j.

    Pairs have the hinges of :func:`pair_hinges`; a triplet (i, j, k) has :math:`[d_{ij} - d_{ik} + m]_+`, and the
    differences to k follow all of those to j.
    """

    def evaluate(z: Array) -> tuple[float, Array]:
        distances = np.einsum("nr,nr->n", z, z)
        if similar is not None:
            value, derivative = pair_hinges(distances, similar, upper, lower, smooth)
        else:
            near, far = np.split(distances, 2)
            value, derivative = hinge(near - far + margin, smooth)
            derivative = np.stack([derivative, -derivative])
        return float((weights * value).sum()), 2.0 * (weights * derivative).reshape(-1, 1) * z

    return evaluate


def laplacian_gradient(pair: Array, z: Array) -> Array:
    """Row i is 2 times the sum over j of v_ij (z_i - z_j), for symmetric weights v = w + w^T of pairs, (n, n)."""
    return np.asarray(2.0 * (pair.sum(1)[:, None] * z - pair @ z))


def pair_hinges(distances: Array, similar: Any, upper: float, lower: float, smooth: float = 0.0) -> tuple[Array, Array]:
    """[d - u]_+ of similar and [l - d]_+ of other pairs, by squared distance, and the derivatives by d."""
    value, derivative = hinge(np.where(similar, distances - upper, lower - distances), smooth)
    return value, np.where(similar, derivative, -derivative)


def hinge(excess: Array, smooth: float = 0.0) -> tuple[Array, Array]:
    r""":math:`[z]_+` and its derivative; with a width s the corner is a parabola, lower by at most s / 2.

    .. math::
        h(z) = 0,\; z \le 0 \qquad z^2 / (2 s),\; 0 < z < s \qquad z - s / 2,\; z \ge s
    """
    above = np.maximum(excess, 0.0)
    derivative = np.minimum(above / smooth, 1.0) if smooth > 0 else np.sign(above)
    return derivative * (above - 0.5 * smooth * derivative), derivative


def build_loss(name: str, options: Mapping[str, OptionValue], classes: int, dim: int, seed: int) -> Loss:
    """The loss of that name in double precision, in Euclidean geometry where it has the choice."""
    chosen: dict[str, Any] = {**({} if "geometry" in options else EUCLIDEAN.get(name, {})), **options}
    return loss(name, num_classes=classes, dim=dim, seed=seed, **chosen).double()


def compares_unit_vectors(criterion: Loss) -> bool:
    """Whether the loss sees unit vectors, so that distances must be measured between unit vectors too."""
    entry, options = criterion.entry, criterion.options
    if entry.input != "either":
        return entry.input == "unit"
    unit = options.get("geometry") in ("cosine", "euclid") or options.get("form") in ("thesis", "deepmetric")
    return unit if options.get("sphere") is None else bool(options["sphere"])


def loss_objective(criterion: Loss, _rows: Any, labels: IntArray, _weights: Any, tuples: Any = None) -> Objective:
    """The loss as a function of mapped rows and of the vector of what it learns."""
    targets, learned = torch.from_numpy(labels), list(criterion.parameters())

    def evaluate(z: Array, *vector: Array) -> tuple[Any, ...]:
        if vector:
            vector_to_parameters(torch.tensor(vector[0]), learned)
        mapped = torch.tensor(z, requires_grad=True)
        value = criterion(mapped, targets, tuples=tuples)
        by_rows, *rest = torch.autograd.grad(value, [mapped, *learned], materialize_grads=True)
        return value.item(), by_rows.numpy(), *(each.numpy().ravel() for each in rest)

    return evaluate
