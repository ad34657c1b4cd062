"""From features of a table to a learned map: which problem, which solver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import OptimizeResult, minimize

from similis.introspection import keyword_defaults
from similis.objective.loss import Loss
from similis.registry import check_known, losses, unknown
from similis.sklearn import objectives
from similis.sklearn.features import Array, IntArray, class_deviations, to_dense
from similis.sklearn.objectives import Objective
from similis.training.closed_form import fit_whitening, ledoit_wolf
from similis.values import Pairs, Triplets, UserError

TABLE = (objectives.nca, objectives.mcml, objectives.lmnn, objectives.constraints)
OBJECTIVES: dict[str, Callable[..., Objective]] = {each.__name__: each for each in TABLE}
CLOSED_FORMS = ("whitening", "euclidean")  # no solver: a formula of a covariance, or the first map
CHOICES = {
    "kernel": ("linear", "rbf", "poly", "precomputed"),
    "regulariser": ("frobenius", "trace", "similar"),
    "solver": ("auto", "lbfgs", "minibatch"),
}
FULL_ROWS = 4000  # of a table's objective; above, minibatches: all pairs at once would be slow
FULL_ROWS_OF_LOSS = 1000  # autograd keeps several matrices of all pairs
FULL_ROWS_OF_TRIPLETS = 250  # and losses over all triplets cubes
CLASS_ROWS = 4  # rows of a class that stay together in a batch, so that rows of small classes meet


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
    degree: Any = 2
    coef0: float = 1.0
    n_landmarks: int = 500
    solver: str = "auto"
    max_iter: int = 100
    tol: float = 1e-3
    batch_size: int = 1024
    epochs: int = 20
    learning_rate: float = 0.02
    random_state: Any = None


class Problem(NamedTuple):
    r"""``share`` times an objective of rows (n, D), sparse or dense, plus a weighted regulariser r(A).

    .. math::
        \text{frobenius: } \tfrac{1}{2} \lVert A \rVert_F^2, \qquad \text{trace: } \mathrm{tr}(A), \qquad
        \text{similar: } \mathrm{tr}(A C)

    ``share`` is one over the total weight: solvers see means, so that their tolerances fit every size. C is the mean
    outer product of the differences ``similar`` (m, D).

    Reference: Schultz, Joachims, NIPS 2003; Kwok, Tsang, ICML 2003; Weinberger, Saul, JMLR 2009.
    """

    rows: Any
    dim: int
    objective: Objective
    share: float
    parameters: Parameters
    similar: Array | None = None

    def at(self, point: Array) -> tuple[float, Array]:
        """Value and gradient at a vector: the map G (dim, D) row by row, then what a loss learns beside it."""
        components, learned = np.split(point, [self.dim * self.rows.shape[1]])
        components = components.reshape(self.dim, -1)
        z = np.ascontiguousarray(self.rows @ components.T)
        value, by_rows, *rest = self.objective(z, *([learned] if len(learned) else []))
        weight, half, product = self.parameters.regularisation / self.rows.shape[1], 1.0, components
        if self.parameters.regulariser == "frobenius":
            half, product = 0.5, components @ (components.T @ components)
        elif self.similar is not None:
            product = (components @ self.similar.T) @ self.similar / max(1, len(self.similar))
        gradient = self.share * (self.rows.T @ by_rows).T + 2.0 * weight * product
        value = self.share * value + half * weight * float((components * product).sum())
        return value, np.concatenate([gradient.ravel(), *(self.share * each for each in rest)])

    def minimise(self, start: Array) -> OptimizeResult:
        """L-BFGS until a step gains less than ``tol`` relative to the value, or for ``max_iter`` steps."""
        if self.parameters.max_iter < 1:  # scipy would take one step
            return OptimizeResult(x=start, fun=self.at(start)[0], nit=0, success=False)
        tol = self.parameters.tol
        options = {"maxiter": self.parameters.max_iter, "ftol": tol, "gtol": tol, "maxcor": 20}
        return minimize(self.at, start, jac=True, method="L-BFGS-B", options=options)


def check_parameters(given: Parameters) -> None:
    """Refuse names that do not exist and numbers out of range; (x.z + c)^q is a kernel for whole q and c >= 0 only."""
    for kind, known in CHOICES.items():
        check_known(kind, getattr(given, kind), known)
    whole = not isinstance(given.degree, bool) and isinstance(given.degree, Integral)
    if given.kernel == "poly" and not (whole and min(given.degree - 1, given.coef0) >= 0):
        numbers = f"degree is {given.degree!r}, coef0 is {given.coef0}"
        raise UserError(f"{numbers}; a polynomial kernel needs a whole number from 1 on, and coef0 of 0 or more")
    if given.gamma is not None and given.gamma <= 0:
        raise UserError(f"gamma is {given.gamma}; it must be above 0 (1 / (2 sigma^2) for a Gaussian of width sigma)")
    if not 0 <= given.regularisation < np.inf:
        raise UserError(f"regularisation is {given.regularisation}; use a finite number of 0 or more")
    if min(given.batch_size, given.epochs) < 1:
        raise UserError(f"batch_size is {given.batch_size}, epochs is {given.epochs}; use 1 or more")
    name = given.objective
    if name in OBJECTIVES or name in CLOSED_FORMS:  # a registered loss checks its own options
        options = keyword_defaults(OBJECTIVES[name]) if name in OBJECTIVES else {}
        for key in (given.objective_options or {}).keys() - options:
            raise UserError(unknown(f"option of {name}", key, options))
    elif name not in losses:
        raise UserError(unknown("objective", name, sorted({*OBJECTIVES, *CLOSED_FORMS, *(e.name for e in losses)})))


class Rows(NamedTuple):
    """A table as solvers meet it: features of any rows on demand, class numbers 0 to C - 1, weights."""

    features: Callable[[IntArray], Any]
    labels: IntArray
    weights: Array

    def problem(self, make: Callable[..., Objective], dim: int, parameters: Parameters, index: IntArray) -> Problem:
        """The problem of some rows, which stand for all; a table's objective is a sum over rows, a loss a mean."""
        index = index[np.argsort(self.labels[index], kind="stable")]
        features, labels, weights = self.features(index), self.labels[index], self.weights[index]
        total, similar = float(self.weights.sum()), None
        if parameters.regulariser == "similar":
            similar = 2**0.5 * class_deviations(to_dense(features), labels)
        share = 1.0 / total if parameters.objective in OBJECTIVES else 1.0
        objective = make(features, labels, weights * (total / weights.sum()))
        return Problem(features, dim, objective, share, parameters, similar)


@np.errstate(over="ignore", invalid="ignore")  # a solver may step too far; the estimator looks at the result
def learn(rows: Rows, start: Array, parameters: Parameters, seed: int) -> OptimizeResult:
    """Learn a map from labels, beginning at ``start`` (r, q)."""
    name, number, classes = parameters.objective, len(rows.labels), int(rows.labels.max()) + 1
    if name == "whitening":
        known = [torch.from_numpy(each) for each in (to_dense(rows.features(np.arange(number))), *rows[1:])]
        start = fit_whitening(*known).map(len(start), ledoit_wolf(*known)).weight.double().numpy()
    if name in CLOSED_FORMS:
        return OptimizeResult(x=start, fun=0.0, nit=1, success=True, sphere=False)
    if name in ("nca", "mcml", "lmnn") and classes == number:
        raise UserError(f"every class has one row only; {name} needs a class with two rows or more")
    options, criterion, full, draws = parameters.objective_options or {}, None, FULL_ROWS, None
    if name in OBJECTIVES:
        make = partial(OBJECTIVES[name], **options)
    else:
        criterion = objectives.build_loss(name, options, classes, len(start), seed)
        make = partial(objectives.loss_objective, criterion)
        full = FULL_ROWS_OF_TRIPLETS if "n" in criterion.entry.cost.memory else FULL_ROWS_OF_LOSS
        draws = rows.weights / rows.weights.sum() if np.ptp(rows.weights) > 0 else None
    build = partial(rows.problem, make, len(start), parameters)
    if draws is None and (parameters.solver == "lbfgs" or (parameters.solver == "auto" and number <= full)):
        return solve(build(np.arange(number)).minimise, start, criterion)
    size, epochs = min(parameters.batch_size, number, number if criterion is None else full), parameters.epochs
    batches = map(build, row_batches(rows.labels, draws, size, epochs, seed))
    adam = partial(minimise_adam, batches, epochs=epochs, steps=number // size, rate=parameters.learning_rate)
    return solve(adam, start, criterion)


@np.errstate(over="ignore", invalid="ignore")
def learn_tuples(tuples: Array, similar: Any, weights: Array, *, start: Array, given: Parameters, seed: int) -> Any:
    """Learn a map from features of pairs (n, 2, q) with ``similar`` (n,), or of triplets (n, 3, q)."""
    name, options, criterion = given.objective, given.objective_options or {}, None
    kind, first = "triplets" if similar is None else "pairs", tuples[:, 0] - tuples[:, 1]
    able = ["constraints", *(entry.name for entry in losses if entry.accepts == kind)]
    if name not in able:
        raise UserError(f"{name} does not take {kind}; use one of: {', '.join(able)}")
    if name == "constraints":
        rows = first if similar is not None else np.vstack([first, tuples[:, 0] - tuples[:, 2]])
        objective = objectives.tuple_constraints(similar, weights / weights.sum(), **options)
    elif np.ptp(weights) > 0:
        raise UserError(f"{name} takes no weights of {kind}; use 'constraints' or repeat the {kind}")
    else:
        rows = np.ascontiguousarray(tuples.reshape(-1, tuples.shape[2]))
        criterion = objectives.build_loss(name, options, 1, len(start), seed)
        places = torch.arange(len(rows)).view(len(tuples), -1)
        pieces = Triplets(*places.T) if similar is None else Pairs(*places[similar].T, *places[~similar].T)
        objective = objectives.loss_objective(criterion, rows, np.arange(len(rows)), weights, pieces)
    near = None if given.regulariser != "similar" else first if similar is None else first[similar]
    return solve(Problem(rows, len(start), objective, 1.0, given, near).minimise, start, criterion)


def solve(minimise: Callable[[Array], OptimizeResult], start: Array, criterion: Loss | None) -> OptimizeResult:
    """Minimise from the map and what the loss learns, as one vector; the result holds the map alone."""
    learned = () if criterion is None else criterion.parameters()
    found = minimise(np.concatenate([start.ravel(), *(each.detach().numpy().ravel() for each in learned)]))
    found.x = found.x[: start.size].reshape(start.shape)
    found.sphere = criterion is not None and objectives.compares_unit_vectors(criterion)
    return found


def minimise_adam(problems: Iterable[Problem], start: Array, *, epochs: int, steps: int, rate: float) -> OptimizeResult:
    """Adam with a rate that falls to 0, ``steps`` batches in each epoch; the value is the mean of the last epoch."""
    point = torch.nn.Parameter(torch.tensor(start))
    optimiser = torch.optim.Adam([point], lr=rate)
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimiser, epochs * steps)
    values: list[float] = []
    for problem in problems:
        value, gradient = problem.at(point.detach().numpy())
        values.append(value)
        point.grad = torch.from_numpy(gradient)
        optimiser.step()
        schedule.step()
    return OptimizeResult(x=point.detach().numpy(), fun=np.mean(values[-steps:]), nit=len(values), success=True)


def row_batches(labels: IntArray, draws: Array | None, size: int, epochs: int, seed: int) -> Iterator[IntArray]:
    """Row numbers of each batch: every row once an epoch, but for the rest, or rows drawn by the chances ``draws``."""
    number, generator = len(labels), np.random.default_rng(seed)
    for _ in range(epochs):
        order = generator.permutation(number) if draws is None else generator.choice(number, number, p=draws)
        order = order[np.argsort(labels[order], kind="stable")]
        places = np.repeat(generator.permutation(number // CLASS_ROWS + 1), CLASS_ROWS)[:number]
        order = order[np.argsort(places, kind="stable")]
        yield from (order[first : first + size] for first in range(0, number - size + 1, size))
