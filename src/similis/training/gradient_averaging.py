"""One step in many processes: each has its part of the batch, all end with the same weights."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from similis.values import Communicator, UserError


def average_gradients(parameters: Iterable[nn.Parameter], communicator: Communicator | None) -> None:
    """Replace gradients by their mean over the processes, which is the gradient of the joined batch's loss.

    Args:
        parameters: those that every process has whole (not a share of the class vectors).
        communicator: None when this process is alone.
    """
    if communicator is not None:
        communicator.average([p.grad for p in parameters if p.grad is not None])


def count_global_rows(rows: int, communicator: Communicator | None) -> int:
    """Rows of all processes."""
    return rows if communicator is None else int(communicator.sum(torch.tensor(rows)))


def check_batch_norm(model: nn.Module, communicator: Communicator | None) -> None:
    """Refuse batch norm that is being trained: each process would have statistics of its own part."""
    if communicator is None or communicator.world == 1:
        return
    for name, layer in model.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training:
            raise UserError(
                f"{communicator.world} processes cannot share the batch statistics of {name}; freeze batch norm "
                "(model.freeze_batch_norm: true) or use one process"
            )
