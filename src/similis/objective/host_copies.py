"""Labels and ids on the host: there they decide the plan of a computation, without waiting for a device.

Tile schedules, widths of lists and checks of classes depend on integers alone. On a device each look at them would
make the host wait until all work before it is done; so a call of a loss fetches them once, or not at all where the
caller has them on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from similis.objective.context import current_context, use_context


class HostCopies:
    """Integers of a device with their copies on the host, where plans are made from them: fetched once in a call."""

    def __init__(self) -> None:
        self._pairs: dict[int, tuple[Tensor, Tensor]] = {}  # both are held, so that a number stays that of its tensor

    def add(self, values: Tensor, host: Tensor) -> Tensor:
        """Note values of a device that are known on the host; the values."""
        self._pairs[id(values)] = (values, host)
        return values

    def of(self, values: Tensor) -> Tensor:
        """The copy on the host; the device is waited for at the first time."""
        if id(values) not in self._pairs:
            self.add(values, values.cpu())
        return self._pairs[id(values)][1]

    def fetch(self, *values: Tensor) -> None:
        """Have the copies of several vectors or numbers made in one transfer, those that are not there yet."""
        new = [part for part in values if id(part) not in self._pairs]
        if new:
            flat = torch.cat([part.reshape(-1).long() for part in new]).cpu()
            for part, host in zip(new, torch.split(flat, [part.numel() for part in new]), strict=True):
                self.add(part, host.view(part.shape))


@contextmanager
def plan_on_host(embeddings: Tensor, labels: Tensor) -> Iterator[Tensor]:
    """Inside, labels are read on the host for plans; gives them where the embeddings are.

    Labels of the host are moved, and then nothing has to be waited for; those of a device are fetched once, by who
    asks first.
    """
    context = current_context()
    hosts = HostCopies() if context.hosts is None else context.hosts
    here = labels.to(embeddings.device, non_blocking=True)
    if here is not labels:
        hosts.add(here, labels)
    with use_context(replace(context, hosts=hosts)):
        yield here


def on_host(values: Tensor) -> Tensor:
    """Integers where a plan can be made from them; see :func:`plan_on_host`."""
    if values.is_cpu:
        return values
    hosts = current_context().hosts
    return values.cpu() if hosts is None else hosts.of(values)


def fetch_to_host(*values: Tensor) -> None:
    """Fetch several tensors of integers at once; nothing where they are on the host already."""
    hosts = current_context().hosts
    if hosts is not None:
        hosts.fetch(*values)


def known_on_host(values: Tensor, host: Tensor) -> Tensor:
    """The values, which from now on need not be fetched: their copy on the host is this."""
    hosts = current_context().hosts
    return values if hosts is None or values.is_cpu else hosts.add(values, host)
