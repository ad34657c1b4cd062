"""Objectives by name: those of a whole table with gradients in closed form, and every registered loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from similis.registry import keyword_defaults, losses, unknown
from similis.sklearn.groups import Groups, nearest_of_class
from similis.sklearn.margins import constraints, lmnn
from similis.sklearn.matrix import Array, all_distances
from similis.sklearn.neighbours import mcml, nca_sum
from similis.sklearn.problem import Labelled, Problem
from similis.sklearn.streamed import Neighbourhood
from similis.values import OptionValue, UserError


@dataclass(frozen=True)
class Objective:
    """An objective of a whole table.

    They need all rows at once (targets, a class's every member), so they stand here and not in the
    registry of losses: a tournament over image batches never meets them.
    """

    name: str
    build: Callable[..., Problem]
    paper: str
    convex: bool

    @property
    def options(self) -> dict[str, OptionValue]:
        """Options with their defaults."""
        return keyword_defaults(self.build)


def nca_problem(rows: Any, groups: Groups, *, form: str = "log") -> Problem:
    """NCA: ``log`` (sum of log probabilities, the default) or ``sum`` (expected number of correct rows)."""
    if form not in ("log", "sum"):
        raise UserError(unknown("form", form, ["log", "sum"]))
    return Neighbourhood(rows, groups) if form == "log" else Labelled(rows, groups, nca_sum)


def mcml_problem(rows: Any, groups: Groups) -> Problem:
    """Maximally collapsing metric learning."""
    return Labelled(rows, groups, mcml)


def lmnn_problem(rows: Any, groups: Groups, *, mu: float = 0.5, neighbors: int = 3, smooth: float = 1e-3) -> Problem:
    """Large margin nearest neighbours; targets are the nearest ``neighbors`` of the class before learning.

    On minibatches they are the nearest within the batch, and so farther than those of the table.
    """
    if neighbors < 1 or not 0 <= mu <= 1:
        raise UserError(f"lmnn got neighbors={neighbors}, mu={mu}; neighbors is 1 or more, mu lies in [0, 1]")
    identity: Array = rows.toarray() if hasattr(rows, "toarray") else rows
    targets = nearest_of_class(all_distances(identity), groups, neighbors)
    return Labelled(rows, replace(groups, targets=targets), partial(lmnn, mu=mu, smooth=smooth))


def constraints_problem(
    rows: Any, groups: Groups, *, upper: float = 1.0, lower: float = 4.0, margin: float = 1.0, smooth: float = 1e-3
) -> Problem:
    """Similar pairs nearer than ``upper``, others farther than ``lower``; ``margin`` is for triplets."""
    del margin
    return Labelled(rows, groups, partial(constraints, upper=upper, lower=lower, smooth=smooth))


TABLE = {
    made.name: made
    for made in (
        Objective("nca", nca_problem, "Goldberger, Roweis, Hinton, Salakhutdinov, NIPS 2004", False),
        Objective("mcml", mcml_problem, "Globerson, Roweis, NIPS 2005", True),
        Objective("lmnn", lmnn_problem, "Weinberger, Saul, JMLR 2009", True),
        Objective("constraints", constraints_problem, "Xing et al., NIPS 2002; Schultz, Joachims, NIPS 2003", True),
    )
}
CLOSED = ("whitening", "euclidean")  # no optimiser: a formula of the covariance, or nothing at all


def known_objective(name: str) -> None:
    """Refuse a name that is neither here nor a registered loss."""
    if name not in TABLE and name not in CLOSED and name not in losses:
        raise UserError(unknown("objective", name, sorted({*TABLE, *CLOSED, *(entry.name for entry in losses)})))


def checked(name: str, options: Mapping[str, OptionValue] | None, known: Mapping[str, object]) -> dict[str, Any]:
    """Options as given, each one known."""
    given = dict(options or {})
    for key in given:
        if key not in known:
            raise UserError(unknown(f"option of {name}", key, known))
    return given
