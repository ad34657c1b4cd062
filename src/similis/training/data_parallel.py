"""One step on several ranks: gradients are averaged, sharded proxies stay apart and become whole in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from similis.objective.context import Partition
from similis.objective.loss import Loss
from similis.objective.sharding import own_rows


def sharded_parameters(objective: nn.Module) -> dict[str, tuple[nn.Parameter, Partition]]:
    """Parameters of which this process has its rows alone, by their names in the objective's state."""
    found = {}
    for place, module in objective.named_modules():
        if isinstance(module, Loss) and module.classes is not None:
            shared = {id(p) for p in module.shared_parameters()}
            for name, parameter in module.named_parameters():
                if id(parameter) not in shared:
                    found[f"{place}.{name}" if place else name] = (parameter, module.classes)
    return found


def select_replicated(parameters: Sequence[nn.Parameter], objective: nn.Module) -> list[nn.Parameter]:
    """Those parameters that every process has whole: their gradients are averaged, the others' are complete."""
    apart = {id(parameter) for parameter, _ in sharded_parameters(objective).values()}
    return [p for p in parameters if id(p) not in apart]


@torch.no_grad()
def clip_global_norm(parameters: Sequence[nn.Parameter], objective: nn.Module, limit: float) -> None:
    """Clip gradients to a norm over all parameters, those of the other ranks included."""
    divided = list(sharded_parameters(objective).values())
    if not divided:
        nn.utils.clip_grad_norm_(parameters, limit)
        return
    own = sum_of_squares([p for p, _ in divided])
    total = sum_of_squares(select_replicated(parameters, objective)) + divided[0][1].communicator.sum(own)
    factor = (limit / (total.sqrt() + 1e-6)).clamp(max=1.0)  # as torch has it
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.mul_(factor)


def sum_of_squares(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Over all gradients that there are."""
    found = [p.grad.square().sum() for p in parameters if p.grad is not None]
    return torch.stack(found).sum() if found else torch.zeros(())  # a number of the host adds to one of any device


def sharded_keys(
    objective: nn.Module, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> dict[str, Partition]:
    """Keys of a checkpoint that hold sharded proxies and their moments, each with its partition."""
    every = [p for group in optimiser.param_groups for p in group["params"]]
    numbers = {id(parameter): number for number, parameter in enumerate(every)}
    found = {}
    for name, (parameter, joint) in sharded_parameters(objective).items():
        moments = f"optimiser.{numbers[id(parameter)]}/"
        for key, value in tensors.items():
            if key == f"loss/{name}" or (key.startswith(moments) and value.ndim == parameter.ndim):
                found[key] = joint
    return found


def take_own_shards(tensors: Mapping[str, Tensor], divided: Mapping[str, Partition]) -> dict[str, Tensor]:
    """This process's rows in place of the rows of all."""
    return {key: own_rows(value, divided[key]) if key in divided else value for key, value in tensors.items()}
