"""From features of a table to a learned map: which objective, which solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np

from similis.introspection import keyword_defaults
from similis.objective.loss import Loss
from similis.registry import losses, unknown
from similis.sklearn.losses import LossProblem, build_loss, compares_unit_vectors, consecutive_tuples, parameter_vector
from similis.sklearn.margins import constraints, lmnn, tuple_problem
from similis.sklearn.neighbours import mcml, nca
from similis.sklearn.problem import (
    RIDGE,
    Array,
    Evaluation,
    IntArray,
    Penalty,
    Problem,
    class_deviations,
    covariance,
    factor,
    group_rows,
    to_dense,
    whitening,
)
from similis.sklearn.solvers import Solution, minimise_adam, minimise_lbfgs, minimise_on_cone, row_batches
from similis.values import UserError

OBJECTIVES: dict[str, Callable[..., Evaluation]] = {"nca": nca, "mcml": mcml, "lmnn": lmnn, "constraints": constraints}
CONVEX = ("mcml", "lmnn", "constraints")  # in A: one optimum from every start
CLOSED_FORMS = ("whitening", "euclidean")  # no solver: a formula of the covariance, or the first map
REGULARISERS = ("frobenius", "trace", "similar")
SOLVERS = ("auto", "lbfgs", "projected", "minibatch")
FULL_ROWS = 4000  # of a table's objective; above, minibatches: all pairs at once would be slow
FULL_ROWS_OF_LOSS = 1000  # autograd keeps several matrices of all pairs
FULL_ROWS_OF_TRIPLETS = 250  # and losses over all triplets cubes


@dataclass(eq=False, repr=False)
class Parameters:
    """What the user chooses; :class:`similis.sklearn.MetricLearner` says what each of them means."""

    objective: str = "nca"
    _: KW_ONLY
    objective_options: dict[str, Any] | None = None
    n_components: int | None = None
    init: Any = "auto"
    standardise: bool = True
    regulariser: str = "trace"
    regularisation: float = 0.3
    kernel: str = "linear"
    gamma: float | None = None
    degree: int = 2
    coef0: float = 1.0
    n_landmarks: int = 500
    solver: str = "auto"
    max_iter: int = 100
    tol: float = 1e-3
    batch_size: int = 1024
    epochs: int = 20
    learning_rate: float = 0.02
    random_state: Any = None


class Rows(NamedTuple):
    """A table as solvers meet it: features of any rows on demand, class numbers 0 to C - 1, weights."""

    features: Callable[[IntArray], Any]
    labels: IntArray
    weights: Array


@np.errstate(over="ignore", invalid="ignore")  # a solver may step too far; the estimator looks at the result
def learn(rows: Rows, start: Array, parameters: Parameters, seed: int) -> Solution:
    """Learn a map from labels, beginning at ``start`` (r, q)."""
    name, options = parameters.objective, check_options(parameters)
    if name in CLOSED_FORMS:
        return solve_closed_form(rows, start, name)
    number, total = len(rows.labels), float(rows.weights.sum())
    criterion = None if name in OBJECTIVES else build_loss(name, options, int(rows.labels.max()) + 1, len(start), seed)
    draws = rows.weights / total if criterion is not None and np.ptp(rows.weights) > 0 else None
    solver = choose_solver(parameters, number)
    solver = solver if draws is None else "minibatch"
    if name in ("nca", "mcml", "lmnn") and rows.labels.max() + 1 == number:
        raise UserError(f"every class has one row only; {name} needs a class with two rows or more")
    if solver == "minibatch" and min(parameters.batch_size, parameters.epochs) < 1:
        raise UserError(f"batch_size is {parameters.batch_size}, epochs is {parameters.epochs}; use 1 or more")

    def build_problem(index: IntArray) -> Problem | LossProblem:
        weights = rows.weights[index]
        groups = group_rows(rows.labels[index], weights * (total / weights.sum()))  # a batch stands for all rows
        features = rows.features(index[groups.order])
        penalty = build_penalty(
            parameters, start.shape[1], lambda: 2**0.5 * class_deviations(to_dense(features), groups)
        )
        if criterion is not None:
            return LossProblem(criterion, len(start), to_dense(features), rows.labels[index][groups.order], penalty)
        return Problem(features, OBJECTIVES[name](features, groups, **options), 1.0 / total, penalty)

    point = start if criterion is None else parameter_vector(criterion, start)
    if solver == "minibatch":
        size = min(parameters.batch_size, number, number if criterion is None else most_rows(name))
        found = minimise_adam(
            lambda index: build_problem(index).at_map,
            point,
            row_batches(rows.labels, draws, size, parameters.epochs, np.random.default_rng(seed)),
            steps=number // size,
            epochs=parameters.epochs,
            rate=parameters.learning_rate,
        )
    else:
        found = solve(build_problem(np.arange(number)), point, parameters)
    return cut_map(found, start, criterion)


@np.errstate(over="ignore", invalid="ignore")
def learn_tuples(
    tuples: Array, similar: Any, weights: Array, *, start: Array, parameters: Parameters, seed: int
) -> Solution:
    """Learn a map from features of pairs (n, 2, q) with ``similar`` (n,), or of triplets (n, 3, q)."""
    name, options = parameters.objective, check_options(parameters)
    choose_solver(parameters, len(tuples))
    first = tuples[:, 0] - tuples[:, 1]
    penalty = build_penalty(parameters, start.shape[1], lambda: first if similar is None else first[similar])
    if name == "constraints":
        options = keyword_defaults(constraints) | options
        return solve(tuple_problem(tuples, similar, weights, options, penalty), start, parameters)
    kind = "triplets" if similar is None else "pairs"
    able = [entry.name for entry in losses if entry.accepts == kind]
    if name not in able:
        raise UserError(f"{name} does not take {kind}; use 'constraints' or one of: {', '.join(able)}")
    if np.ptp(weights) > 0:
        raise UserError(f"{name} takes no weights of {kind}; use 'constraints' or repeat the {kind}")
    rows = np.ascontiguousarray(tuples.reshape(-1, tuples.shape[2]))
    criterion = build_loss(name, options, 1, len(start), seed)
    given = consecutive_tuples(len(tuples), similar)
    problem = LossProblem(criterion, len(start), rows, np.arange(len(rows)), penalty, given)
    return cut_map(solve(problem, parameter_vector(criterion, start), parameters), start, criterion)


def solve(problem: Problem | LossProblem, point: Array, parameters: Parameters) -> Solution:
    """Minimise over all rows or tuples at once: on the cone of matrices if you ask for it, else over the map."""
    max_iter, tol = parameters.max_iter, parameters.tol
    if isinstance(problem, Problem) and parameters.solver == "projected":
        found = minimise_on_cone(problem.at_metric, point.T @ point, max_iter=max_iter, tol=tol)
        return found._replace(point=factor(found.point, len(point)))
    return minimise_lbfgs(problem.at_map, point, max_iter=max_iter, tol=tol)


def cut_map(found: Solution, start: Array, criterion: Loss | None) -> Solution:
    """The map of a solution, without what the loss learned beside it."""
    sphere = criterion is not None and compares_unit_vectors(criterion)
    return found._replace(point=found.point.ravel()[: start.size].reshape(start.shape), sphere=sphere)


def solve_closed_form(rows: Rows, start: Array, name: str) -> Solution:
    """Whitening by the inverse covariance (Mahalanobis), or the first map as it is."""
    if name == "euclidean":
        return Solution(start, 0.0, 1, True)
    spread = covariance(to_dense(rows.features(np.arange(len(rows.labels)))), rows.weights)
    ridge = 0.0 if np.linalg.cond(spread) < 1e12 else RIDGE
    return Solution(whitening(spread, ridge)[: len(start)], 0.0, 1, True)


def most_rows(objective: str) -> int:
    """Rows up to which an objective meets the whole table at once."""
    if objective in OBJECTIVES:
        return FULL_ROWS
    return FULL_ROWS_OF_TRIPLETS if "n" in losses.get(objective).cost.memory else FULL_ROWS_OF_LOSS


def choose_solver(parameters: Parameters, number: int) -> str:
    """The solver asked for, or the one of ``auto`` for that number of rows."""
    name, solver = parameters.objective, parameters.solver
    if solver not in SOLVERS:
        raise UserError(unknown("solver", solver, list(SOLVERS)))
    if solver == "projected" and name not in CONVEX:
        raise UserError(f"solver='projected' needs a convex objective, {name} is not; use 'lbfgs'")
    if solver != "auto":
        return solver
    return "lbfgs" if number <= most_rows(name) else "minibatch"


def check_options(parameters: Parameters) -> dict[str, Any]:
    """The options of a known objective, each one known; a registered loss checks its own."""
    name, options = parameters.objective, dict(parameters.objective_options or {})
    if name in OBJECTIVES or name in CLOSED_FORMS:
        known = keyword_defaults(OBJECTIVES[name]) if name in OBJECTIVES else {}
        for key in options:
            if key not in known:
                raise UserError(unknown(f"option of {name}", key, known))
    elif name not in losses:
        names = {*OBJECTIVES, *CLOSED_FORMS, *(entry.name for entry in losses)}
        raise UserError(unknown("objective", name, sorted(names)))
    return options


def build_penalty(parameters: Parameters, width: int, similar: Callable[[], Array]) -> Penalty:
    """The regulariser of maps on ``width`` columns; ``similar`` gives the differences that should be small."""
    kind, weight = parameters.regulariser, parameters.regularisation
    if kind not in REGULARISERS:
        raise UserError(unknown("regulariser", kind, list(REGULARISERS)))
    if not 0 <= weight < np.inf:
        raise UserError(f"regularisation is {weight}; use a finite number of 0 or more")
    if kind != "similar":
        return Penalty(kind, weight / width)
    differences = similar()
    return Penalty(kind, weight / width, differences.T @ differences / max(1, len(differences)))
