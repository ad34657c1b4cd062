"""What a threshold does that was chosen elsewhere: its rates on other classes, with their intervals."""

from functools import partial
from typing import Any

import torch

from similis.retrieval.intervals import DRAWS, Interval, class_bootstrap
from similis.retrieval.pair_similarities import labelled_pairs
from similis.retrieval.threshold_rates import count_accepted, rates
from similis.values import Embedded, Pairs


def rates_at(embedded: Embedded, threshold: float, *, groups: Any = None, pairs: Pairs | None = None,
             draws: int = DRAWS, seed: int = 0) -> tuple[Interval, Interval]:  # fmt: skip
    """False and true accept rate of a threshold chosen elsewhere; arguments as in ``verify``."""
    compared = labelled_pairs(embedded, groups=groups, pairs=pairs)
    accepted = count_accepted(compared, torch.tensor([threshold], dtype=torch.float64))
    bootstrap = partial(class_bootstrap, draws=draws, seed=seed)
    far = bootstrap(lambda times: rates(times, accepted)[0], accepted.impostors[:, -1])
    tar = bootstrap(lambda times: rates(times, accepted)[1], accepted.genuine[:, -1])
    return far.interval(), tar.interval()
