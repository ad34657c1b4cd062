"""Rows of sharded classes in files: written by some ranks, read by any number, in the memory of a share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch

from similis.engine import row_files
from similis.engine.launch_ranks import launch
from similis.engine.process_pool import WorkersLostError
from similis.engine.row_files import OwnRows, load_rows, save_rows, saved_names
from similis.objective.context import spread_evenly
from similis.training import checkpoint
from similis.training.checkpoint import last_checkpoint, restore, save_checkpoint
from similis.training.loop import Progress
from similis.values import DataError
from tests.multiprocess.test_training import task_of

ROWS = 23


def whole(name: str) -> torch.Tensor:
    return torch.arange(ROWS * 3.0).view(ROWS, 3) + (100 if name == "moments" else 0)


def own(name: str, rank: int, world: int) -> OwnRows:
    counts = spread_evenly(ROWS, world)
    first = sum(counts[:rank])
    return OwnRows(whole(name)[first : first + counts[rank]].clone(), first)


def save(communicator, folder, piece=row_files.PIECE):
    row_files.PIECE = piece
    save_rows(
        {name: own(name, communicator.rank, communicator.world) for name in ("proxies", "moments")},
        folder,
        communicator,
    )


@pytest.mark.parametrize("piece", [1, 40, 2**23])
def test_any_number_of_ranks_reads_what_two_wrote(two, tmp_path, piece):
    two.call(save, tmp_path, piece)
    assert saved_names(tmp_path) == {"proxies", "moments"}
    for world in (1, 2, 3, 4):
        for rank in range(world):
            wanted = {name: own(name, rank, world) for name in ("proxies", "moments")}
            empty = {name: OwnRows(torch.full_like(rows, -1), first) for name, (rows, first) in wanted.items()}
            load_rows(empty, tmp_path)
            assert all(torch.equal(empty[name].rows, wanted[name].rows) for name in wanted)


def test_rows_that_are_not_there_are_told(two, tmp_path):
    two.call(save, tmp_path)
    with pytest.raises(DataError, match="does not hold all rows of proxies"):
        load_rows({"proxies": OwnRows(torch.empty(ROWS, 3), 1)}, tmp_path)


def peak_of(communicator, folder, classes, dim):
    """Peak of the memory of a rank while it saves and while it loads, as multiples of its share."""
    counts = spread_evenly(classes, communicator.world)
    first = sum(counts[: communicator.rank])
    share = {
        name: OwnRows(torch.rand(counts[communicator.rank], dim), first) for name in ("proxies", "first", "second")
    }
    size = sum(rows.nbytes for rows, _ in share.values())
    save(communicator, Path(folder) / "small")  # what PyTorch loads at the first time is no part of a share
    load_rows({"proxies": own("proxies", communicator.rank, communicator.world)}, Path(folder) / "small")
    folder, found = Path(folder) / "large", []
    for work in (lambda: save_rows(share, folder, communicator), lambda: load_rows(share, folder)):
        communicator.barrier()
        before = reset_peak()
        work()
        found.append(1 + (memory("VmHWM") - before) / size)
    return found


def memory(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(key))


def reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return memory("VmRSS")


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_million_classes_are_saved_and_read_in_the_memory_of_a_share(tmp_path, ranks):
    for saving, loading in launch(peak_of, ranks, tmp_path / "rows", 1_000_000, 128):
        assert saving <= 1.2, saving
        assert loading <= 1.2, loading


def killed_in_a_save(communicator, path):
    task = task_of("proxy_anchor", communicator, divide=True)
    save_checkpoint(path, task, Progress(step=1), {}, contents="run")

    def half(tensors, folder, ranks):
        if ranks.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        save_rows(tensors, folder, ranks)

    checkpoint.save_rows = half
    with torch.no_grad():
        for parameter in task.loss.parameters():
            parameter.add_(1)
    save_checkpoint(path, task, Progress(step=2), {}, contents="run", keep=True)


def test_a_kill_during_a_save_leaves_the_checkpoint_before_it(tmp_path):
    path = tmp_path / "checkpoint-select.safetensors"
    with pytest.raises(WorkersLostError, match=r"rank 1 of 2 was lost \(exit code -9\) after 0 restarts"):
        launch(killed_in_a_save, 2, path, restarts=0)
    found = last_checkpoint(path, "run")
    assert found.progress.step == 1
    task = task_of("proxy_anchor", None)
    want = [p.detach().clone() for p in task.loss.parameters()]
    with torch.no_grad():
        for parameter in task.loss.parameters():
            parameter.zero_()
    restore(task, found)
    assert all(torch.equal(mine, known) for mine, known in zip(task.loss.parameters(), want, strict=True))
