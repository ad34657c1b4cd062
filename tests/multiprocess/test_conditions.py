"""A loss over ranks inside what loops do around it: accumulation without synchronisation, checkpointing, autocast."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from similis.objective.ranks import Ranks
from tests.multiprocess.agreement import gap
from tests.multiprocess.work import UNEVEN, batch, network, objective

KINDS = {"no_sync": 1e-10, "checkpointing": 1e-10, "autocast": 2e-2, "loss in DistributedDataParallel": 1e-10}


class Both(torch.nn.Module):
    """A network with its loss inside, as many trainers want it."""

    def __init__(self, net, made) -> None:
        super().__init__()
        self.net, self.made = net, made

    def forward(self, inputs, labels):
        return self.made(self.net(inputs), labels)


def two_steps(communicator, kind: str) -> list[torch.Tensor]:
    """Gradients of the network and of what the loss learns after two backward passes."""
    dtype = torch.float32 if kind == "autocast" else torch.float64
    net, made = network(0, dtype), objective("proxy_anchor", "default", 0, dtype)
    made.ranks = Ranks(None)
    both = Both(net, made)
    alone, whole = communicator is None, kind.startswith("loss in")
    shared = net if alone else DistributedDataParallel(both if whole else net)
    for step in range(2):
        inputs, labels, _ = batch(step, dtype)
        if not alone:
            inputs, labels = (part.split(UNEVEN[2])[communicator.rank] for part in (inputs, labels))
        apart = shared.no_sync() if kind == "no_sync" and step == 0 and not alone else nullcontext()
        with apart, torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
            if whole:
                value = both(inputs, labels) if alone else shared(inputs, labels)
            elif kind == "checkpointing":
                value = made(checkpoint(shared, inputs, use_reentrant=False), labels)
            else:
                value = made(shared(inputs), labels)
            value.backward()
    return [p.grad for p in both.parameters()]


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_one_process(two, kind):
    want = two_steps(None, kind)
    for found in two.call(two_steps, kind):
        assert max(float(gap(mine, known)) for mine, known in zip(found, want, strict=True)) <= KINDS[kind]
