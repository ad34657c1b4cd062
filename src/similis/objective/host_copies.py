"""Labels and ids on the host: there they decide the plan of a computation, without waiting for a device.

Tile schedules, widths of lists and checks of classes depend on integers alone. On a device each look at them would
make the host wait until all work before it is done; so a call of a loss fetches them once, or not at all where the
caller has them on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor

from similis.objective.context import HostCopies, Partition, current_context, use_context
from similis.values import pin


@contextmanager
def plan_on_host(embeddings: Tensor, labels: Tensor) -> Iterator[Tensor]:
    """Inside, labels are read on the host for plans; gives them where the embeddings are.

    Labels on the host are moved without waiting; labels on a device are copied to the host once, at the first use.
    """
    with share_host_copies():
        yield move_integers(labels, embeddings)


def share_host_copies() -> AbstractContextManager[None]:
    """Inside, integers of a device are copied to the host once at most."""
    if torch.compiler.is_compiling():
        return nullcontext()
    context = current_context()
    return use_context(replace(context, hosts=HostCopies() if context.hosts is None else context.hosts))


def move_integers(values: Tensor, like: Tensor) -> Tensor:
    """Labels or ids where the vectors are; those of the host are moved without waiting, and known there."""
    here = values.to(like.device, non_blocking=True)
    return here if here is values else known_on_host(here, values)


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


def gather_integers(values: Tensor, joint: Partition) -> Tensor:
    """Labels, ids or a relation of all ranks; vectors travel between the hosts, so that no rank waits to know them."""
    if values.is_cpu or values.ndim > 1:
        return joint.gather(values)
    host = joint.gather(on_host(values))
    return known_on_host(pin(host, values.device).to(values.device, non_blocking=True), host)
