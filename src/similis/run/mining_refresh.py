"""Offline mining in a run: the training rows embedded and searched, the same table in every process."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from similis.data.loader import Loader
from similis.retrieval.offline_mining import Mined, mine_offline
from similis.run.evaluation import evaluate_rows, on_device
from similis.run.spec import RunSpec
from similis.training.randomness import mixed_seed
from similis.training.rank_zero import is_first
from similis.values import Communicator

MINING = 7  # sets the draws of mining apart from those of other purposes


def refresh_table(
    module: nn.Module,
    loader: Loader,
    rows: Tensor,
    spec: RunSpec,
    *,
    epoch: int,
    communicator: Communicator | None = None,
) -> Mined:
    """For each of the rows a positive and a list of negatives, as places in ``rows``.

    The rows are embedded in evaluation mode and in the order of the data set. The first process mines and the
    others receive its table, so that all of them make the same batches from it.

    Args:
        module: what is trained, with its weights of this moment.
        loader: of its inputs; no other pass may be open.
        rows: (N,) rising row numbers of the manifest.
        spec: kind and length of the lists.
        epoch: that begins; sets the draws of random positives.
        communicator: the other processes; None for one alone.
    """
    mining = spec.training.mining
    if is_first(communicator):
        found = on_device(evaluate_rows(module, loader, rows, spec), loader)
        kind = "semi_hard" if mining.kind == "semi_hard" else "hard"  # neighbours draw their positives epoch by epoch
        generator = torch.Generator().manual_seed(mixed_seed(spec.seed, MINING, epoch))
        table = mine_offline(found, mining.listed, kind=kind, generator=generator)
    else:
        table = Mined(rows.new_empty(len(rows)), rows.new_empty(len(rows), mining.listed))
    return table if communicator is None else Mined(*(communicator.broadcast(each) for each in table))
