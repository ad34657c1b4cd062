"""Search spaces: the registry's ranges, and the thesis' Table 15."""

from __future__ import annotations

from collections.abc import Mapping

from similis.registry import Range, losses
from similis.study.plan.contestant import Contestant
from similis.study.plan.schema import SearchPlan
from similis.values import UserError

RATE, NETWORK_RATE = "loss_multiplier", "lr"
RATE_SPREAD = 10.0  # either way of what the registry declares
_SCALE, _UNIT = Range(2.0, 100.0, step=2.0), Range(0.0, 1.0, step=0.1)
# Thesis, Table 15; "(0, 100] in steps of 2" begins at 2. Rates are relative to the backbone's 1e-4.
TABLE15: Mapping[str, Mapping[str, Range]] = {
    "multi_similarity": {"base_cos": _UNIT, "alpha": _SCALE, "beta": _SCALE, "epsilon_cos": _UNIT},
    "soft_triple": {
        "margin_cos": _UNIT,
        "scale": _SCALE,
        RATE: Range(0.1, 1.0, step=0.1),
        "gamma_inv": Range(10.0, 100.0, step=10.0),
        "tau": _UNIT,
    },
    "proxy_anchor": {"margin_cos": _UNIT, "scale": _SCALE},
}


def search_space(contestant: Contestant, search: SearchPlan, lr: float = 1e-4) -> dict[str, Range]:
    """Name -> range of everything that is searched for one contestant.

    The network's rate is searched for all contestants in the same range. What the loss learns gets a rate of its own,
    a factor ten around the one that the registry declares. Options that the plan sets are not searched. Table 15 has
    three losses; the others keep the registry's ranges.

    Args:
        contestant: whose settings; nothing is searched for one that is fixed.
        search: whose ranges, and how far around the terms' rate.
        lr: the network's rate of the terms.

    Example:
        >>> sorted(search_space(Contestant(loss="proxy_anchor"), SearchPlan()))
        ['loss_multiplier', 'lr', 'margin_cos', 'scale']
        >>> sorted(search_space(Contestant(loss="proxy_anchor"), SearchPlan(space="table15", rate_factor=1)))
        ['margin_cos', 'scale']
    """
    entry = losses.get(contestant.loss)
    if contestant.fixed:
        return {}
    if search.space == "table15" and contestant.loss in TABLE15:
        found = dict(TABLE15[contestant.loss])
    else:
        found = dict(entry.space)
        if entry.learns:
            found[RATE] = rate_range(contestant)
    if search.rate_factor > 1:
        found[NETWORK_RATE] = Range(lr / search.rate_factor, lr * search.rate_factor, log=True)
    return {name: kind for name, kind in found.items() if name not in contestant.options}


def rate_range(contestant: Contestant) -> Range:
    """The rates of what a loss learns, around the registry's; the search must be able to begin inside."""
    declared, first = losses.get(contestant.loss).lr_multiplier, contestant.first_multiplier
    low, high = declared / RATE_SPREAD, declared * RATE_SPREAD
    if not low <= first <= high:
        raise UserError(
            f"{contestant.title} begins with {RATE} {first:g}, and it is searched from {low:g} to {high:g}; "
            "begin inside, or set fixed: true"
        )
    return Range(low, high, log=True)
