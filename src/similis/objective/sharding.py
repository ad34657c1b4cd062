"""Class vectors divided over processes: each owns its share of the classes and their optimiser state.

Softmax-type losses gather the samples, compare them with their own classes and join the rows' log-sum-exp
values of all processes. Losses whose anchors are classes gather the samples and sum over their own
classes. Both compute what one process with all classes computes. The gradient of a share is that of
the loss itself: it must not be averaged over processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from similis.objective.joining import Joint, shares
from similis.objective.module import Loss
from similis.values import Communicator, UserError


def shard(loss: Loss, communicator: Communicator) -> Loss:
    """Keep only this process's share of the class vectors; the loss is changed in place.

    Call it inside ``joined(communicator)`` afterwards, and leave ``loss.shared_parameters()`` alone the
    parameters whose gradients are averaged.

    Args:
        loss: with class vectors (C, D) or (C, K, D), equal on all processes.
        communicator: the processes that share them.
    """
    if loss.classes is not None:
        raise UserError(f"the class vectors of {loss.entry.name} are divided already")
    vectors = {name: value for name, value in loss.learned.items() if value.ndim > 1}
    if not vectors:
        raise UserError(f"{loss.entry.name} has no class vectors to divide; use it as it is")
    number = len(next(iter(vectors.values())))
    if number < communicator.world:
        raise UserError(f"{number} classes cannot be divided over {communicator.world} processes; use fewer")
    loss.classes = Joint(communicator, shares(number, communicator.world))
    for name, value in vectors.items():
        loss.learned[name] = torch.nn.Parameter(own_rows(value.detach(), loss.classes))
    return loss


def own_rows(whole: Tensor, classes: Joint) -> Tensor:
    """This process's rows of a tensor over all classes, as a copy."""
    return whole[classes.first : classes.first + classes.own].clone()


def whole_state(loss: Loss, optimiser: torch.optim.Optimizer | None = None) -> dict[str, Tensor]:
    """The state of a divided loss as that of an undivided one; every process must ask for it.

    Args:
        loss: divided or not.
        optimiser: its moments of the class vectors are put under ``optimiser/NAME/KEY``.
    """
    state = {key: value for key, value in loss.state_dict().items() if isinstance(value, Tensor)}
    moments = {} if optimiser is None else moments_of(loss, optimiser)
    if loss.classes is None:
        return state | moments
    whole = {key: joined_rows(value, loss, key) for key, value in state.items()}
    return whole | {key: joined_rows(value, loss, key) for key, value in moments.items()}


def moments_of(loss: Loss, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What an optimiser keeps for the parameters of a loss, by name."""
    return {
        f"optimiser/learned.{name}/{key}": torch.as_tensor(value)
        for name, parameter in loss.learned.items()
        for key, value in optimiser.state.get(parameter, {}).items()
    }


def joined_rows(value: Tensor, loss: Loss, key: str) -> Tensor:
    """The rows of all processes if the value belongs to class vectors, otherwise the value."""
    if loss.classes is None or not of_classes(value, loss, key):
        return value
    return loss.classes.gather(value.detach())


def of_classes(value: Tensor, loss: Loss, key: str) -> bool:
    """Whether a value has one row for each class vector of this process."""
    return any(
        f"learned.{name}" in key and value.ndim == parameter.ndim and parameter.ndim > 1
        for name, parameter in loss.learned.items()
    )


def load_whole(loss: Loss, state: Mapping[str, Tensor], optimiser: torch.optim.Optimizer | None = None) -> None:
    """Put the state of :func:`whole_state` into a loss, divided over any number of processes or not."""

    def part(key: str, value: Tensor) -> Tensor:
        return own_rows(value, loss.classes) if loss.classes is not None and of_classes(value, loss, key) else value

    loss.load_state_dict({key: part(key, value) for key, value in state.items() if not key.startswith("optimiser/")})
    if optimiser is None:
        return
    for key, value in state.items():
        if key.startswith("optimiser/"):
            _, name, moment = key.split("/")
            parameter = loss.learned[name.removeprefix("learned.")]
            kept: dict[str, Any] = optimiser.state[parameter]
            kept[moment] = part(key, value).clone()
