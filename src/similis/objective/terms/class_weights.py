"""Proxies that each stand for several classes: the weights that sampled classes have in sums over classes.

A sum over all classes is estimated by the sum over a sample in which each class counts as one over its
probability to be drawn. Where a loss adds over classes the estimate is right on average; where it takes a
logarithm of the sum it is too small on average (see ``sampling``).
"""

from __future__ import annotations

from torch import Tensor

from similis.objective.terms.reductions import Term, as_terms
from similis.objective.terms.tile import Ask, Tile
from similis.values import UserError


def weight_columns(ask: Ask, weights: Tensor) -> Ask:
    """The same question over columns that count as ``weights`` (M,) of them."""
    place = len(ask.rows) + len(ask.cols)

    def fn(tile: Tile, *values: Tensor) -> tuple[Term, ...]:
        made = ask.fn(tile, *values[:place], *values[place + 1 :])
        return tuple(weight_term(term, values[place]) for term in as_terms(made))

    return ask._replace(fn=fn, cols=(*ask.cols, weights))


def weight_term(term: Term, weight: Tensor) -> Term:
    """A term whose columns count as ``weight`` (1, M): as a factor of a sum, as a summand in an exponent."""
    if term.kind == "top":
        raise UserError("the nearest of all classes cannot be told from a sample of them")
    wide = weight.unsqueeze(-1) if term.values.ndim == 3 else weight
    return term._replace(values=term.values + wide.log() if term.kind == "lse" else term.values * wide)
