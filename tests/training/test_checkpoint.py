"""Checkpoints: a run that was stopped and continued ends with the same bits."""

import pytest
import torch

from similis.objective.loss import loss
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.training.checkpoint import (
    Checkpoint,
    last_checkpoint,
    previous_checkpoint,
    read_checkpoint,
    restore,
    save_checkpoint,
)
from similis.training.loop import Progress, train
from similis.training.optimisers import MovingAverage
from similis.training.tensors import save_tensors
from similis.values import DataError
from tests.training.small import DIM, batches, task


def made(memory: bool, precision: str = "float32"):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2, enabled=precision == "fp16")
    built = task(precision=precision, scaler=scaler)  # the scale has changed before the run stops
    built.average = MovingAverage(built.model, 0.9)
    if memory:
        built.loss = CrossBatchMemory(loss("triplet"), size=20, dim=DIM)
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
@pytest.mark.parametrize("precision", ["float32", "fp16"])
def test_continuing_equals_never_stopping(tmp_path, precision, stop_at, memory):
    whole = made(memory, precision)
    train(whole, batches, Progress(), after_step=lambda r: None, after_epoch=lambda p: False, epochs=3)

    class Killed(Exception):
        pass

    first, path = made(memory, precision), tmp_path / "checkpoint.safetensors"

    def stop(report):
        if report.progress.step == stop_at:
            save_checkpoint(path, first, report.progress, {"best": 0.5})
            raise Killed

    with pytest.raises(Killed):
        train(first, batches, Progress(), after_step=stop, after_epoch=lambda p: False, epochs=3)
    second = made(memory, precision)
    kept = restored(path, second)
    assert (kept.progress.step, kept.notes) == (stop_at, {"best": 0.5})
    train(second, batches, kept.progress, after_step=lambda r: None, after_epoch=lambda p: False, epochs=3)
    assert torch.equal(weights(whole), weights(second))


def restored(path, built) -> Checkpoint:
    """Put the checkpoint of a path into a task."""
    kept = read_checkpoint(path)
    restore(built, kept)
    return kept


def test_another_format_is_refused(tmp_path):
    path = tmp_path / "other.safetensors"
    save_tensors(path, {"a": torch.zeros(1)}, {"format": "other", "contents": ""})
    with pytest.raises(DataError, match=r"'other'.*delete it"):
        read_checkpoint(path)


def test_the_checkpoint_before_the_last_is_kept_and_used_when_the_last_is_damaged(tmp_path, caplog):
    built, path = made(False), tmp_path / "checkpoint.safetensors"
    for step in (1, 2, 3):
        save_checkpoint(path, built, Progress(step=step), {}, contents="run/select", keep=step > 1)
    assert last_checkpoint(path, "run/select").progress.step == 3
    path.write_bytes(path.read_bytes()[:1000])
    assert last_checkpoint(path, "run/select").progress.step == 2
    assert "checkpoint.safetensors is missing or damaged" in caplog.text
    path.unlink()  # a crash between the two renames of a save
    assert last_checkpoint(path, "run/select").progress.step == 2
    previous_checkpoint(path).write_bytes(b"")
    assert last_checkpoint(path, "run/select") is None


def test_a_damaged_checkpoint_does_not_take_the_place_of_the_sound_one_before_it(tmp_path):
    built, path = made(False), tmp_path / "checkpoint.safetensors"
    for step in (1, 2):
        save_checkpoint(path, built, Progress(step=step), {}, keep=step > 1)
    path.write_bytes(b"half")
    save_checkpoint(path, built, Progress(step=2), {}, keep=False)
    assert [read_checkpoint(p).progress.step for p in (path, previous_checkpoint(path))] == [2, 1]


def test_a_checkpoint_of_another_stage_is_not_used(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, made(False), Progress(step=1), {}, contents="run/select")
    assert last_checkpoint(path, "run/refit") is None


def test_a_checkpoint_that_does_not_fit_the_model_says_so(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, made(False), Progress(step=1), {})
    with pytest.raises(DataError, match="does not fit the model and the loss as they are now"):
        restored(path, made(True))


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
    run(restored(path, built).progress)
    assert seen == whole[stop_at:]
    assert made_at == [step for step in (5, 10) if step >= stop_at]
