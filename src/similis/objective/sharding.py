"""Proxies sharded over ranks: each owns its share of the classes and their optimiser state.

Softmax-type losses gather the samples, compare them with their own classes and join the rows' log-sum-exp
values of all ranks. Losses whose anchors are classes gather the samples and sum over their own
classes. Both compute what one process with all classes computes. The gradient of a share is that of
the loss itself: it must not be averaged over ranks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from similis.objective.context import Partition, spread_evenly
from similis.objective.loss import Loss
from similis.registry import find_communicator
from similis.values import Communicator, UserError


def shard(loss: Loss, communicator: Communicator | None = None) -> Loss:
    """Keep only this rank's share of the proxies; the loss is changed in place.

    The gradient of a share is complete: do not average it over ranks, nor wrap the loss in
    ``DistributedDataParallel``.

    Args:
        loss: with proxies (C, D) or (C, K, D), equal on all ranks.
        communicator: the ranks that share them; None for those of the process group, as with ``distributed=True``.
    """
    communicator = find_communicator() if communicator is None else communicator
    if communicator is None:
        raise UserError("this process is alone, so there is nobody to share classes with; start several by torchrun")
    if loss.classes is not None:
        raise UserError(f"the proxies of {loss.entry.name} are sharded already")
    vectors = {name: value for name, value in loss.learned.items() if value.ndim > 1}
    if not vectors:
        raise UserError(f"{loss.entry.name} has no proxies to shard; use it as it is")
    number = len(next(iter(vectors.values())))
    if number < communicator.world:
        raise UserError(f"{number} classes cannot be sharded over {communicator.world} ranks; use fewer ranks")
    loss.classes = Partition(communicator, spread_evenly(number, communicator.world))
    for name, value in vectors.items():
        loss.learned[name] = torch.nn.Parameter(own_rows(value.detach(), loss.classes))
    return loss


def own_rows(whole: Tensor, classes: Partition) -> Tensor:
    """This rank's rows of a tensor over all classes, as a copy."""
    return whole[classes.first : classes.first + classes.own].clone()
