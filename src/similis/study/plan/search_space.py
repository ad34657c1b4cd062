"""Search spaces: the ranges that the registry declares, and those of the rates."""

from __future__ import annotations

from similis.registry import Range, losses
from similis.run.training_spec import TrainingSpec
from similis.study.plan.contestant import Contestant
from similis.study.plan.schema import SearchPlan

RATE, NETWORK_RATE = "loss_multiplier", "lr"
RATE_SPREAD = 10.0  # either way of the first


def search_space(contestant: Contestant, search: SearchPlan, lr: float = TrainingSpec().lr) -> dict[str, Range]:
    """Name -> range of everything that is searched for one contestant.

    The network's rate is searched for all contestants in the same range. What the loss learns gets a rate of its own,
    a factor ten around the one that the search begins with. Options that the plan sets are not searched.

    Args:
        contestant: whose settings; nothing is searched for one that is fixed.
        search: how far around the terms' rate.
        lr: the network's rate of the terms.

    Example:
        >>> sorted(search_space(Contestant(loss="proxy_anchor"), SearchPlan()))
        ['loss_multiplier', 'lr', 'margin_cos', 'scale']
    """
    entry = losses.get(contestant.loss)
    if contestant.fixed:
        return {}
    found = dict(entry.space) | ({RATE: rate_range(contestant)} if entry.learns else {})
    if search.rate_factor > 1:
        found[NETWORK_RATE] = Range(lr / search.rate_factor, lr * search.rate_factor, log=True)
    return {name: kind for name, kind in found.items() if name not in contestant.options}


def search_budget(contestant: Contestant, search: SearchPlan) -> int:
    """Runs of full length that a contestant's search may take: the preset, and so many for each setting.

    Example:
        >>> search_budget(Contestant(loss="proxy_anchor"), SearchPlan(trials=3))
        13
    """
    free = len(search_space(contestant, search))
    return 1 + search.trials * free if search.trials and not contestant.fixed else 0


def rate_range(contestant: Contestant) -> Range:
    """The rates of what a loss learns, around the one that the search begins with."""
    first = contestant.first_multiplier
    return Range(first / RATE_SPREAD, first * RATE_SPREAD, log=True)
