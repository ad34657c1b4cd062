"""A process group that, like NCCL, takes tensors of its device alone; gloo carries them underneath."""

from __future__ import annotations

import torch
import torch.distributed as dist

from tests.accelerator.emulator import NAME


class DeviceGroup(dist.ProcessGroup):
    """The collectives that Similis asks for."""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self.host = dist.ProcessGroupGloo(store, rank, size, timeout)

    def getBackendName(self):
        return NAME

    def carry(self, written, read, collective):
        """Copies on the host go through gloo; what is written comes back."""
        strangers = [x.device for x in (*written, *read) if x.device.type != NAME]
        if strangers:
            raise RuntimeError(f"No backend type associated with device type {strangers[0]}")
        copies = [x.cpu() for x in (*written, *read)]
        collective(copies[: len(written)], copies[len(written) :]).wait()
        for own, copy in zip(written, copies, strict=False):
            own.copy_(copy)
        done = torch.futures.Future()
        done.set_result(written)
        return torch._C._distributed_c10d._create_work_from_future(done)

    def allreduce(self, tensors, options=None):
        return self.carry(tensors, [], lambda own, _: self.host.allreduce(own, options or dist.AllreduceOptions()))

    def broadcast(self, tensors, options=None):
        return self.carry(tensors, [], lambda own, _: self.host.broadcast(own, options or dist.BroadcastOptions()))

    def reduce(self, tensors, options=None):
        return self.carry(tensors, [], lambda own, _: self.host.reduce(own, options or dist.ReduceOptions()))

    def allgather(self, outs, rows, options=None):
        """For DistributedDataParallel, which compares the shapes of its parameters."""
        options = options or dist.AllgatherOptions()
        return self.carry(outs[0], rows, lambda own, all_: self.host.allgather([own], all_, options))

    def _allgather_base(self, out, rows, options=None):
        options = options or dist.AllgatherOptions()
        return self.carry([out], [rows], lambda own, all_: self.host._allgather_base(own[0], all_[0], options))

    def _reduce_scatter_base(self, out, rows, options=None):
        options = options or dist.ReduceScatterOptions()
        return self.carry([out], [rows], lambda own, all_: self.host._reduce_scatter_base(own[0], all_[0], options))

    all_gather_single, reduce_scatter_single = _allgather_base, _reduce_scatter_base

    def barrier(self, opts=None):
        return self.host.barrier(opts or dist.BarrierOptions())


def register_group() -> None:
    """Make it the backend of the emulated device."""
    dist.Backend.register_backend(NAME, DeviceGroup, devices=[NAME])
