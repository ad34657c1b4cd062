"""From a checked table to a learned map: which problem, which solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from similis.registry import losses
from similis.sklearn.groups import Groups, Whole, grouped
from similis.sklearn.matrix import Array, Penalty, covariance, factor, penalty_of, whitening
from similis.sklearn.minibatches import Plan, descend, row_batches
from similis.sklearn.objectives import CLOSED, TABLE, checked
from similis.sklearn.problem import Paired, Problem, Related, dense, with_penalty, with_penalty_of_metric
from similis.sklearn.registered import Mapped, built, on_sphere, takes, tuples_of
from similis.sklearn.solvers import lbfgs, projected
from similis.sklearn.start import RIDGE
from similis.values import UserError

FULL_ROWS = 4000  # of a table's objective; above, minibatches: all pairs at once would be slow
FULL_ROWS_OF_LOSS = 1000  # autograd keeps several matrices of all pairs
FULL_ROWS_OF_TRIPLETS = 250  # and losses over all triplets cubes


@dataclass(frozen=True)
class Settings:
    """What the user chose."""

    objective: str
    options: dict[str, Any]
    regulariser: str
    regularisation: float
    solver: str
    max_iter: int
    tol: float
    plan: Plan
    seed: int


class Learned(NamedTuple):
    """A map on features, its value, the steps taken, whether the tolerance was met, whether it needs the sphere."""

    components: Array
    value: float
    steps: int
    converged: bool
    sphere: bool = False


class Rows(NamedTuple):
    """A table as the solvers meet it: features of any rows on demand, class numbers, weights."""

    features: Callable[[Whole], Any]
    labels: Whole
    weights: Array

    def whole(self) -> tuple[Any, Groups]:
        """All features in the order of their groups."""
        groups = grouped(self.labels, self.weights)
        return self.features(groups.order), groups


def learn(rows: Rows, start: Array, settings: Settings) -> Learned:
    """Learn a map from labels with the solver that fits the size."""
    name = settings.objective
    if name in CLOSED:
        return closed_form(rows, start, settings)
    solver = chosen_solver(settings, len(rows.labels))
    if name not in TABLE:
        return by_autograd(rows, start, settings, solver)
    if solver == "minibatch":
        return in_batches(rows, start, settings)
    features, groups = rows.whole()
    problem = TABLE[name].build(features, groups, **checked(name, settings.options, TABLE[name].options))
    penalty = penalty_of(settings.regulariser, settings.regularisation, similar_scatter(features, groups, settings))
    return solved(problem, penalty, start, settings, TABLE[name].convex)


def most_rows(objective: str) -> int:
    """Rows up to which an objective meets the whole table at once."""
    if objective in TABLE:
        return FULL_ROWS
    return FULL_ROWS_OF_TRIPLETS if "n" in losses.get(objective).cost.memory else FULL_ROWS_OF_LOSS


def chosen_solver(settings: Settings, number: int) -> str:
    """The solver of ``auto``, or the one asked for where it exists."""
    if settings.solver not in ("auto", "lbfgs", "projected", "minibatch"):
        raise UserError(f"solver is {settings.solver!r}; use 'auto', 'lbfgs', 'projected' or 'minibatch'")
    if settings.solver != "auto":
        return settings.solver
    return "lbfgs" if number <= most_rows(settings.objective) else "minibatch"


def solved(problem: Problem, penalty: Penalty, start: Array, settings: Settings, convex: bool) -> Learned:
    """Minimise over the map, or over the cone of matrices where the problem is convex there."""
    if settings.solver == "projected":
        if not convex:
            raise UserError(f"solver='projected' needs a convex objective, {settings.objective} is not; use 'lbfgs'")
        found = projected(
            lambda metric: with_penalty_of_metric(problem, penalty, metric),
            start.T @ start,
            max_iter=settings.max_iter,
            tol=settings.tol,
        )
        return Learned(factor(found.point, len(start)), found.value, found.steps, found.converged)
    found = lbfgs(
        lambda components: with_penalty(problem, penalty, components),
        start,
        max_iter=settings.max_iter,
        tol=settings.tol,
    )
    return Learned(found.point, found.value, max(1, found.steps), found.converged)


def closed_form(rows: Rows, start: Array, settings: Settings) -> Learned:
    """Whitening by the inverse covariance (Mahalanobis), or the first map as it is."""
    checked(settings.objective, settings.options, {})
    if settings.objective == "euclidean":
        return Learned(start, 0.0, 1, True)
    features = dense(rows.features(np.arange(len(rows.labels))))
    spread = covariance(features, rows.weights) if len(features) > 1 else np.eye(features.shape[1])
    ridge = 0.0 if np.linalg.cond(spread) < 1e12 else RIDGE
    return Learned(whitening(spread, ridge)[: len(start)], 0.0, 1, True)


def similar_scatter(features: Any, groups: Groups, settings: Settings) -> Array | None:
    """C of tr(AC): the mean outer product of differences of rows of one class, if the regulariser needs it."""
    if settings.regulariser != "similar":
        return None
    table = dense(features)
    inside = np.vstack([table[block] - table[block].mean(0) for block in groups.blocks()])
    return np.asarray(2.0 * inside.T @ inside / len(inside))


def in_batches(rows: Rows, start: Array, settings: Settings) -> Learned:
    """A table's objective on minibatches: gradients in closed form, steps by Adam."""
    entry = TABLE[settings.objective]
    options = checked(settings.objective, settings.options, entry.options)
    components = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    total = float(rows.weights.sum())

    def backward(index: Whole) -> float:
        own = rows.weights[index]
        groups = grouped(rows.labels[index], own * (total / own.sum()))  # a batch's neighbours stand for all of them
        features = rows.features(index[groups.order])
        penalty = penalty_of(
            settings.regulariser, settings.regularisation, similar_scatter(features, groups, settings)
        )  # fmt: skip
        problem = entry.build(features, groups, **options)
        value, gradient = with_penalty(problem, penalty, components.detach().numpy())
        components.grad = torch.from_numpy(np.ascontiguousarray(gradient))
        return value

    batches = row_batches(rows.labels, None, settings.plan, np.random.default_rng(settings.seed))
    steps, value = descend([components], backward, batches, settings.plan, len(rows.labels))
    return Learned(components.detach().numpy().copy(), value, steps, True)


def by_autograd(rows: Rows, start: Array, settings: Settings, solver: str) -> Learned:
    """A registered loss: L-BFGS on the whole table, or minibatches; weights decide how often a row is drawn."""
    if solver == "projected":
        raise UserError(f"solver='projected' needs a convex objective, {settings.objective} is not; use 'lbfgs'")
    classes = int(rows.labels.max()) + 1
    criterion = built(settings.objective, settings.options, classes, len(start), settings.seed)
    features, groups = rows.whole() if settings.regulariser == "similar" else (None, None)
    scatter = None if groups is None else similar_scatter(features, groups, settings)
    mapped = Mapped(criterion, start, penalty_of(settings.regulariser, settings.regularisation, scatter))
    uneven = bool(np.ptp(rows.weights) > 0)
    if solver == "lbfgs" and not uneven:
        every = np.arange(len(rows.labels))
        function = mapped.function(dense(rows.features(every)), torch.from_numpy(rows.labels))
        found = lbfgs(function, mapped.vector(), max_iter=settings.max_iter, tol=settings.tol)
        mapped.load(found.point)
        components = mapped.components.detach().numpy().copy()
        return Learned(components, found.value, max(1, found.steps), found.converged, on_sphere(criterion))

    def backward(index: Whole) -> float:
        return mapped.backward(dense(rows.features(index)), torch.from_numpy(rows.labels[index]))

    draws = rows.weights / rows.weights.sum() if uneven else None
    plan = replace(settings.plan, size=min(settings.plan.size, most_rows(settings.objective)))
    drawn = row_batches(rows.labels, draws, plan, np.random.default_rng(settings.seed))
    steps, value = descend(mapped.parameters(), backward, drawn, plan, len(rows.labels))
    return Learned(mapped.components.detach().numpy().copy(), value, steps, True, on_sphere(criterion))


def learn_tuples(tuples: Array, similar: Any, weights: Array, start: Array, settings: Settings) -> Learned:
    """Learn a map from features of pairs (n, 2, q) with ``similar`` (n,), or of triplets (n, 3, q)."""
    kind = "pairs" if tuples.shape[1] == 2 else "triplets"
    penalty = penalty_of(settings.regulariser, settings.regularisation, scatter_of_tuples(tuples, similar))
    if settings.objective == "constraints":
        options = TABLE["constraints"].options | checked("constraints", settings.options, TABLE["constraints"].options)
        return solved(tuple_problem(tuples, similar, weights, options), penalty, start, settings, True)
    takes(settings.objective, kind)
    if np.ptp(weights) > 0:
        raise UserError(f"{settings.objective} takes no weights of {kind}; use 'constraints' or repeat the {kind}")
    criterion = built(settings.objective, settings.options, 1, len(start), settings.seed)
    mapped = Mapped(criterion, start, penalty)
    rows = np.ascontiguousarray(tuples.reshape(-1, tuples.shape[2]))
    function = mapped.function(rows, torch.arange(len(rows)), tuples_of(kind, len(tuples), similar))
    found = lbfgs(function, mapped.vector(), max_iter=settings.max_iter, tol=settings.tol)
    mapped.load(found.point)
    components = mapped.components.detach().numpy().copy()
    return Learned(components, found.value, max(1, found.steps), found.converged, on_sphere(criterion))


def tuple_problem(tuples: Array, similar: Any, weights: Array, options: dict[str, Any]) -> Problem:
    """Hinges on pairs or on triplets."""
    first = tuples[:, 0] - tuples[:, 1]
    if tuples.shape[1] == 2:
        return Paired(first, similar, weights, options["upper"], options["lower"], options["smooth"])
    return Related(first, tuples[:, 0] - tuples[:, 2], weights, options["margin"], options["smooth"])


def scatter_of_tuples(tuples: Array, similar: Any) -> Array:
    """C of tr(AC): the mean outer product of the differences that should be small."""
    first = tuples[:, 0] - tuples[:, 1]
    first = first if similar is None else first[np.asarray(similar, dtype=bool)]
    return first.T @ first / max(1, len(first))
