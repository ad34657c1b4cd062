"""What a process of the tests does: know the device, then train as one of several ranks, or be killed in mid-run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import torch

from similis.engine.process_group import join_group
from similis.run.distributed import run_here
from similis.run.machine import Machine, Watch
from similis.run.run import run
from tests.accelerator import emulator
from tests.accelerator.group import register_group
from tests.run.small import small


def train_rank(rank: int, world: int, device: str, folder: str, changes: dict, more: dict) -> None:
    if device == emulator.NAME:
        emulator.load()
        register_group()
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    with join_group(device, store=Path(folder) / f"store-{device}", timeout=300.0) as communicator:
        assert communicator.device.type == device
        run_here(communicator, small(**changes), Machine(root=Path(folder) / device, device=device, **more))


class Killer(Watch):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, report, mined) -> None:
        if report.progress.step >= self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def train_until(step: int, device: str, folder: str, changes: dict) -> None:
    if device == emulator.NAME:
        emulator.load()
    run(small(**changes), Machine(root=Path(folder), device=device), Killer(step))
