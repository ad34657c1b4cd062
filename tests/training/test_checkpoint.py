"""Checkpoints: a run that was stopped and continued ends with the same bits."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from similis.objective.memory import WithMemory
from similis.objective.module import loss
from similis.training.average import MovingAverage
from similis.training.checkpoint import load_checkpoint, save_checkpoint, save_tensors
from similis.training.loop import Progress, train
from similis.values import DataError
from tests.training.small import DIM, batches, task


def made(memory: bool):
    built = task()
    built.average = MovingAverage(built.model, 0.9)
    if memory:
        built.loss = WithMemory(loss("triplet"), capacity=20, dim=DIM)
    built.model = built.model.to(memory_format=torch.channels_last)
    return built


def weights(built):
    states = [
        built.model.state_dict(),
        built.average.state_dict(),
        {k: v for k, v in built.loss.state_dict().items() if "extra" not in k},
    ]
    return torch.cat([v.flatten().double() for state in states for v in state.values()])


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("stop_at", [1, 5, 7])
def test_continuing_equals_never_stopping(tmp_path, stop_at, memory):
    whole = made(memory)
    train(whole, batches, Progress(), after_step=lambda r: None, after_epoch=lambda p: False, epochs=3)

    class Killed(Exception):
        pass

    first, path = made(memory), tmp_path / "checkpoint.safetensors"

    def stop(report):
        if report.progress.step == stop_at:
            save_checkpoint(path, first, report.progress, {"best": 0.5})
            raise Killed

    with pytest.raises(Killed):
        train(first, batches, Progress(), after_step=stop, after_epoch=lambda p: False, epochs=3)
    second = made(memory)
    progress, notes = load_checkpoint(path, second)
    assert (progress.step, notes) == (stop_at, {"best": 0.5})
    train(second, batches, progress, after_step=lambda r: None, after_epoch=lambda p: False, epochs=3)
    assert torch.equal(weights(whole), weights(second))


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "weights.safetensors"
    save_tensors(path, {"a": torch.zeros(3)}, {"format": "x"})
    before = path.read_bytes()
    with pytest.raises(Exception, match=r".*"):
        save_tensors(path, {"a": "no tensor"}, {})  # type: ignore[dict-item]
    assert path.read_bytes() == before


def test_another_format_is_refused(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"a": torch.zeros(1)}, path, {"format": "other"})
    with pytest.raises(DataError, match="'other'"):
        load_checkpoint(path, made(False))


@pytest.mark.parametrize("stop_at", [3, 5, 8])
def test_a_table_made_at_some_epochs_is_in_the_checkpoint_and_made_again_only_where_an_epoch_begins(tmp_path, stop_at):
    """5 steps an epoch, a table before epochs 0 and 2, from the weights of that moment."""
    path, made_at = tmp_path / "checkpoint.safetensors", []

    def before_epoch(progress):
        made_at.append(progress.step)
        if progress.epoch % 2 == 0:
            built.tables = {"mean": torch.stack([p.mean() for p in built.model.parameters()]).detach()}

    def after_step(report):
        seen.append(float(built.tables["mean"].sum()))
        if report.progress.step == stop_at and not path.exists():
            save_checkpoint(path, built, report.progress, {})

    def run(progress):
        train(built, batches, progress, after_step=after_step, after_epoch=lambda p: False, epochs=3,
              before_epoch=before_epoch)  # fmt: skip

    built, seen = made(False), []
    run(Progress())
    whole = seen
    assert made_at == [0, 5, 10]
    assert len(set(whole)) == 2
    built, seen, made_at = made(False), [], []
    run(load_checkpoint(path, built)[0])
    assert seen == whole[stop_at:]
    assert made_at == [step for step in (5, 10) if step >= stop_at]
