"""Training in 1, 2 and 4 processes from one specification: the same curves, also with another number midway."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from similis.data.sampling import samplers, shard_batches
from similis.engine.process_pool import WorkersLostError
from similis.objective.loss import loss
from similis.objective.sharding import shard
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.objective.wrappers.nested import Nested
from similis.registry import losses
from similis.run.distributed import run_on_ranks
from similis.run.machine import Machine
from similis.run.parts import base_loss
from similis.run.run import run
from similis.training.checkpoint import read_checkpoint, restore, save_checkpoint
from similis.training.folder import RunFolder
from similis.training.loop import Progress, Task, train
from similis.training.optimisers import Rates, Schedule, build_optimiser, parameter_groups
from similis.values import Batch
from tests.run.small import Killer, ran, remains, small

CLASSES, IMAGES, BATCH, STEPS = 10, 15, 15, 50
DIVIDED = [entry.name for entry in losses if entry.family in ("proxy", "classification")]
OBJECTIVES = {
    "multi_similarity": lambda: loss("multi_similarity"),
    "proxy_anchor": lambda: loss("proxy_anchor", num_classes=CLASSES, dim=6),
    "margin": lambda: loss("margin", miner="distance_weighted"),
    "soft_triple": lambda: loss("soft_triple", num_classes=CLASSES, dim=6),
    "nested arcface": lambda: Nested(loss("arcface", num_classes=CLASSES, dim=6), (3, 6)),
    "memory": lambda: CrossBatchMemory(loss("triplet", miner="semi_hard"), size=40, dim=6),
}


def examples() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(CLASSES).repeat_interleave(IMAGES)
    centres = torch.randn(CLASSES, 8, generator=generator, dtype=torch.float64)
    return centres[labels] + torch.randn(len(labels), 8, generator=generator, dtype=torch.float64), labels


def task_of(name: str, communicator, divide: bool = False) -> Task:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 6)).double()
    objective = (OBJECTIVES[name]() if name in OBJECTIVES else loss(name, num_classes=CLASSES, dim=6)).double()
    if divide and communicator is not None:
        shard(base_loss(objective), communicator)
    rates = Rates("adamw", 0.01, loss_multiplier=10.0)
    optimiser = build_optimiser(parameter_groups(model, [], objective, rates), rates)
    schedule = Schedule("cosine", 5)
    return Task(model, objective, optimiser, schedule, 10, STEPS, seed=0, clip_norm=0.5, communicator=communicator)


def curve(communicator, name: str, start=None, stop: int = STEPS, keep=None, divide: bool = False):
    """Losses of the steps from a checkpoint on, and the weights at the end."""
    task, (images, labels) = task_of(name, communicator, divide), examples()
    progress = Progress()
    if start is not None:
        kept = read_checkpoint(start)
        restore(task, kept)
        progress = kept.progress
    found: list[float] = []

    def batches(epoch: int, first: int):
        rows = samplers.get("balanced").function(labels, batch_size=BATCH, seed=0, epoch=epoch, per_class=3)
        if communicator is not None:
            rows = shard_batches(rows, communicator.rank, communicator.world)
        return [Batch(images[part], labels[part], part) for part in rows[first:]]

    def after_step(report):
        found.append(report.loss.item())
        if report.progress.step == stop and keep is not None:
            save_checkpoint(keep, task, report.progress, {})

    end = train(task, batches, progress, after_step=after_step, after_epoch=lambda p: p.step >= stop, epochs=5)
    assert end.samples == end.step * BATCH
    return torch.tensor(found, dtype=torch.float64), {k: v.clone() for k, v in task.model.state_dict().items()}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_curves_coincide(two, name):
    want, weights = curve(None, name)
    assert len(want) == STEPS
    assert want.std() > 1e-3  # it moves
    for found, model in two.call(curve, name):
        assert torch.allclose(found, want, rtol=0, atol=1e-9)
        assert all(torch.allclose(model[key], weights[key], rtol=0, atol=1e-9) for key in weights)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_curves_of_four_coincide(four, name):
    want, _ = curve(None, name)
    assert all(torch.allclose(found, want, rtol=0, atol=1e-9) for found, _ in four.call(curve, name))


def test_another_number_of_processes_goes_on(two, four, tmp_path):
    want, _ = curve(None, "memory")
    kept = tmp_path / "half.safetensors"
    two.call(curve, "memory", None, 30, kept)  # the first 30 steps in two processes
    rest = [curve(None, "memory", kept), *four.call(curve, "memory", kept)]
    for found, _ in rest:
        assert len(found) == STEPS - 30
        assert torch.allclose(found, want[30:], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", [*DIVIDED, "nested arcface"])
def test_divided_classes_are_saved_on_four_and_resumed_on_one_two_and_three(two, three, four, name, tmp_path):
    want, weights = curve(None, name)
    kept = tmp_path / "half.safetensors"
    for found, _ in four.call(curve, name, None, 30, kept, True):
        assert torch.allclose(found, want[:30], rtol=0, atol=1e-9)
    divided = (name, kept, STEPS, None, True)
    again = [two.call(curve, *divided), three.call(curve, *divided), two.call(curve, name, kept)]
    rest = [curve(None, name, kept), *(each for part in again for each in part)]
    for found, model in rest:
        assert len(found) == STEPS - 30
        assert torch.allclose(found, want[30:], rtol=0, atol=1e-9)
        assert all(torch.allclose(model[key], weights[key], rtol=0, atol=1e-9) for key in weights)


SHARED = {
    "objective__loss": "multi_similarity",
    "model__freeze_batch_norm": True,
    "training__batch_size": 9,
    "training__lr": 1e-4,
}


def killing(step: int, mark: Path | None = None):
    """A display for :func:`run_on_ranks` whose process is killed at a step."""
    return partial(nullcontext, Killer("step", step, mark))


@pytest.mark.slow
def test_a_run_with_divided_classes_goes_on_with_other_numbers(tmp_path):
    changes = {"objective__loss": "proxy_anchor", "training__epochs": 15, "training__refit": False}
    spec = small(**SHARED | changes)
    alone = run(spec, Machine(root=tmp_path / "alone"))
    with pytest.raises(WorkersLostError):
        run_on_ranks(spec, Machine(root=tmp_path / "4", shard_classes=True), killing(10), ranks=4, restarts=0)
    (left,) = (tmp_path / "4").glob("[!.]*")
    contents = f"{(left / 'address').read_text()}/select"
    begun = read_checkpoint(left / "checkpoint-select.safetensors", contents).progress.step
    assert 9 <= begun < 30  # a step is told before its checkpoint
    for ranks in (1, 2, 3):
        shutil.copytree(tmp_path / "4", tmp_path / str(ranks))
        result = run_on_ranks(spec, Machine(root=tmp_path / str(ranks), shard_classes=True), ranks=ranks)
        assert torch.allclose(losses_of(alone), losses_of(result), rtol=1e-2, atol=1e-3)
        assert result.history[:5] == pytest.approx(alone.history[:5])


def losses_of(result) -> torch.Tensor:
    return torch.tensor([r["loss"] for r in RunFolder(result.folder).records() if "loss" in r])


def test_a_run_on_two_processes(tmp_path):
    spec = small(**SHARED, training__frozen_epochs=1)
    one = run(spec, Machine(root=tmp_path / "one"))
    two = run_on_ranks(spec, Machine(root=tmp_path / "two"), ranks=2)
    assert one.address == two.address
    assert len(losses_of(one)) == len(losses_of(two)) > 4
    assert torch.allclose(losses_of(one), losses_of(two), rtol=1e-3)  # float32: rounding grows with the steps
    assert one.history == pytest.approx(two.history)
    assert one.test == pytest.approx(two.test)
    assert sorted(p.name for p in one.folder.iterdir()) == sorted(p.name for p in two.folder.iterdir())
    assert run_on_ranks(spec, Machine(root=tmp_path / "two"), ranks=2).to_json() == two.to_json()  # the result stands


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_run_whose_rank_is_killed_equals_one_that_is_not(tmp_path, ranks):
    """The launcher begins all ranks again from the last checkpoint: to the bit, also where sums have four terms."""
    spec = small(**SHARED)
    alone = run_on_ranks(spec, Machine(root=tmp_path / "alone"), ranks=ranks)
    killed = run_on_ranks(spec, Machine(root=tmp_path / "killed"), killing(3, tmp_path / "mark"), ranks=ranks)
    assert (tmp_path / "mark").exists()
    assert remains(killed.folder) == remains(alone.folder)


@pytest.mark.slow
def test_torchrun(tmp_path):
    """The plain command of the batch files: two processes of torchrun."""
    spec, root = tmp_path / "run.json", Path(__file__).parents[2]
    spec.write_text(small(**SHARED).model_dump_json())
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "similis.run.torchrun", str(spec), "--runs", str(tmp_path / "runs")]
    subprocess.run(
        command, cwd=root, check=True, capture_output=True, timeout=250, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    (found,) = (tmp_path / "runs").glob("*/result.json")
    alone = ran(tmp_path / "alone", **SHARED)
    assert json.loads(found.read_text())["history"] == pytest.approx(alone.history)
