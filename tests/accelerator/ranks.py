"""What a process of the tests does: know the device, then work as one of two ranks, or be killed in mid-run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import torch

from similis.engine.process_group import join_group
from similis.run.distributed import run_here
from similis.run.machine import Machine
from similis.run.run import run
from similis.values import Communicator
from tests.accelerator import emulator
from tests.accelerator.group import register_group
from tests.run.small import Killer, small


@contextmanager
def rank_of_two(rank: int, folder: str, device: str = emulator.NAME) -> Iterator[Communicator]:
    """The group of two on the device, in the process of one of them."""
    if device == emulator.NAME:
        emulator.load()
        register_group()
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    with join_group(device, store=Path(folder) / f"store-{device}", timeout=300.0) as communicator:
        assert communicator.device.type == device
        yield communicator


def run_both(function, *given) -> None:
    """A function of a rank in two processes that end well."""
    processes = [get_context("spawn").Process(target=function, args=(rank, *given)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]


def train_rank(rank: int, folder: str, device: str, changes: dict, more: dict) -> None:
    with rank_of_two(rank, folder, device) as communicator:
        run_here(communicator, small(**changes), Machine(root=Path(folder) / device, device=device, **more))


def train_until(step: int, device: str, folder: str, changes: dict) -> None:
    if device == emulator.NAME:
        emulator.load()
    run(small(**changes), Machine(root=Path(folder), device=device), Killer("step", step))
