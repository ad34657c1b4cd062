"""Collectives of torch.distributed with exact gradients.

Every collective is differentiated as what it is: a linear map of the values of all processes. The
gradient of a sum is a sum, that of a gather is a reduce-scatter. So the mean gradients are those
of the sum over processes of what each calls ``backward`` on, whatever a loss does in between.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from similis.values import Communicator, UserError

# torch 2.13 renamed both and warns about the old names, which are all that torch 2.6 has
_all_gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

SAME_CALLS = "every rank must make the same calls in the same order, a rank without rows included"


class Collectives:
    """The communicator of this process within an initialised process group.

    Attributes:
        rank: number of this process, from 0.
        world: number of processes.
        bytes: what this process has handed to each collective so far, padding included.

    Tensors of a device that the group's backend takes are exchanged there. Others travel between the hosts, over gloo,
    so labels and counts on the host never make it wait for a device.

    Args:
        group: a process group; None for that of all processes.
        device: where this process computes; None for the current device of the type that the group takes.
    """

    def __init__(self, group: dist.ProcessGroup | None = None, device: torch.device | str | None = None) -> None:
        if not dist.is_initialized():
            raise UserError(
                "torch.distributed is not initialised in this process; start it by torchrun and call "
                "torch.distributed.init_process_group, or use similis.engine.launch_ranks.launch"
            )
        self.group = group
        self.takes = device_types(group)
        self.device = current_device(self.takes) if device is None else torch.device(device)
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self.bytes: Counter[str] = Counter()

    def sum(self, value: Tensor) -> Tensor:
        """The sum of ``value`` over all processes; its gradient is the sum of theirs."""
        summed: Tensor = _Sum.apply(value, self)  # type: ignore[no-untyped-call]
        return summed

    @cached_property
    def host(self) -> dist.ProcessGroup | None:
        """The group of the same processes that takes tensors of the host."""
        if "cpu" in self.takes:
            return self.group
        everybody = dist.get_process_group_ranks(dist.group.WORLD if self.group is None else self.group)
        made: dist.ProcessGroup = dist.new_group(everybody, backend="gloo", use_local_synchronization=True)
        return made

    def counts(self, rows: int, call: str = "") -> tuple[int, ...]:
        """The number of rows that each process has, in the order of ranks.

        Args:
            rows: of this process.
            call: what this process is about to compute, in words; processes with different words get an error.
        """
        own = torch.tensor([[rows, zlib.crc32(call.encode())]], dtype=torch.int64, device="cpu")
        try:
            found = self._gather_over_ranks(own)
        except RuntimeError as error:
            error.add_note(f"rank {self.rank} waited for the other ranks in {call or 'an exchange'}; {SAME_CALLS}")
            raise
        others = [rank for rank in range(self.world) if found[rank, 1] != own[0, 1]]
        if others:
            raise UserError(f"rank {self.rank} computes {call}, and rank {others[0]} something else; {SAME_CALLS}")
        return tuple(found[:, 0].tolist())

    def gather(self, rows: Tensor, counts: tuple[int, ...]) -> Tensor:
        """The rows (n, ...) of all processes in the order of ranks; n may differ, the rest of the shape not.

        Args:
            rows: of this process, with or without gradient, any type.
            counts: from :meth:`counts`.
        """
        if len(counts) != self.world or counts[self.rank] != len(rows):
            raise UserError(f"rank {self.rank} of {self.world} has {len(rows)} rows, but the counts say {counts}")
        joined: Tensor = _Gather.apply(rows, self, counts)  # type: ignore[no-untyped-call]
        return joined

    def broadcast(self, value: Tensor, source: int = 0) -> Tensor:
        """The value of one process, without gradient; shape and type must be known to all."""
        out, group = self._copy(value), self._group_for(value)
        self.bytes["broadcast"] += size_of(out)
        dist.broadcast(out, group=group, group_src=source)
        return out.to(value.device)

    def average(self, values: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over all processes; one message for each type."""
        by_type: dict[torch.dtype, list[Tensor]] = {}
        for value in values:
            by_type.setdefault(value.dtype, []).append(value)
        for same in by_type.values():
            flat = torch.cat([value.reshape(-1) for value in same])
            flat = self._sum_over_ranks(flat).div_(self.world)
            for value, part in zip(same, torch.split(flat, [value.numel() for value in same]), strict=True):
                value.copy_(part.view_as(value))

    def barrier(self) -> None:
        """Return when every process has come here."""
        dist.barrier(self.group)

    def _group_for(self, value: Tensor) -> dist.ProcessGroup | None:
        return self.group if value.device.type in self.takes else self.host

    def _place_of(self, value: Tensor) -> torch.device:
        return value.device if value.device.type in self.takes else torch.device("cpu")

    def _copy(self, value: Tensor) -> Tensor:
        """A value of its own where its group wants it."""
        return value.detach().to(self._place_of(value), copy=True).contiguous()

    def _sum_over_ranks(self, value: Tensor) -> Tensor:
        out, group = self._copy(value), self._group_for(value)
        self.bytes["sum"] += size_of(out)
        dist.all_reduce(out, group=group)
        return out.to(value.device)

    def _gather_over_ranks(self, rows: Tensor) -> Tensor:
        """Equal numbers of rows from every process, one after the other."""
        return self._exchange("gather", _all_gather, rows, self.world * len(rows))

    def _scatter_over_ranks(self, rows: Tensor) -> Tensor:
        """Of equal blocks, one for each process, the sum over processes of this one's block."""
        return self._exchange("scatter", _reduce_scatter, rows, len(rows) // self.world)

    def _exchange(self, kind: str, collective: Any, rows: Tensor, length: int) -> Tensor:
        here, group = rows.to(self._place_of(rows)).contiguous(), self._group_for(rows)
        out = here.new_empty((length, *rows.shape[1:]))
        self.bytes[kind] += size_of(rows)
        collective(out, here, group=group)
        return out.to(rows.device)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, processes: Collectives) -> Tensor:
        ctx.processes = processes
        return processes._sum_over_ranks(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.processes._sum_over_ranks(gradients[0]), None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, processes: Collectives, counts: tuple[int, ...]) -> Tensor:
        ctx.processes, ctx.counts = processes, counts
        plain = rows.to(torch.uint8) if rows.dtype == torch.bool else rows
        return remove_padding(processes._gather_over_ranks(pad_rows(plain, max(counts))), counts).to(rows.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        processes, counts = ctx.processes, ctx.counts
        blocks = torch.cat([pad_rows(block, max(counts)) for block in torch.split(gradients[0], list(counts))])
        return processes._scatter_over_ranks(blocks)[: counts[processes.rank]], None, None


_known: dict[dist.ProcessGroup, Collectives] = {}


def find_ranks(group: dist.ProcessGroup | None = None) -> Collectives | None:
    """The communicator of a process group, made once; None where this process is alone."""
    if not dist.is_available() or not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise UserError(
                f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but this process is in no group; call "
                "torch.distributed.init_process_group before the first step"
            )
        return None
    whole = group or dist.group.WORLD
    assert whole is not None
    if dist.get_world_size(whole) == 1:
        return None
    if whole not in _known:
        _known[whole] = Collectives(whole)
    return _known[whole]


def device_types(group: dist.ProcessGroup | None) -> frozenset[str]:
    """Types of the devices whose tensors a group takes; gloo takes the host's, whatever it may claim."""
    pairs = [pair.split(":") for pair in dist.get_backend_config(group).split(",")]
    return frozenset(device for device, backend in pairs if backend != "gloo" or device == "cpu")


def current_device(types: frozenset[str]) -> torch.device:
    """The current device of the accelerator among these types, or else the host."""
    others = sorted(types - {"cpu"})
    if not others:
        return torch.device("cpu")
    return torch.device(others[0], torch.get_device_module(others[0]).current_device())


def replicate(network: nn.Module, communicator: Communicator | None) -> nn.Module:
    """The network as ``DistributedDataParallel`` has it, whose gradients are means over the ranks; itself for one rank.

    Buckets keep their order from the first step on, so that a resumed run adds in the order of one that was not killed.
    """
    if not isinstance(communicator, Collectives) or not any(p.requires_grad for p in network.parameters()):
        return network
    # torch 2.13 renamed what keeps buffers apart and warns about the old name, which is all that torch 2.6 has
    named = signature(DistributedDataParallel).parameters
    apart: Any = {"forward_sync_buffers" if "forward_sync_buffers" in named else "broadcast_buffers": False}
    return DistributedDataParallel(network, process_group=communicator.group, find_unused_parameters=True, **apart)


def keep_gradients_apart(network: nn.Module) -> AbstractContextManager[None]:
    """A context whose backward passes add to this rank's gradients; the first one after it joins those of all ranks."""
    return network.no_sync() if isinstance(network, DistributedDataParallel) else nullcontext()


def pad_rows(rows: Tensor, length: int) -> Tensor:
    """Rows with zeros behind them up to a length."""
    if len(rows) == length:
        return rows
    return torch.cat([rows, rows.new_zeros((length - len(rows), *rows.shape[1:]))])


def remove_padding(blocks: Tensor, counts: tuple[int, ...]) -> Tensor:
    """The first ``counts[r]`` rows of each of the equal blocks."""
    if len(set(counts)) == 1:
        return blocks
    length = max(counts)
    return torch.cat([blocks[r * length : r * length + count] for r, count in enumerate(counts)])


def size_of(value: Tensor) -> int:
    """Bytes of a tensor."""
    return value.numel() * value.element_size()
