"""One stage: the rate of the loss, the rows of its batches, patience counts epochs."""

import math
from itertools import islice

import pytest
import torch
from safetensors.torch import load_file

from similis.registry import losses
from similis.run.parts import base_loss, build_objective
from similis.run.recorder import LOG_STEPS, Recorder
from similis.run.stage import batches_of, build_task
from similis.training.loop import Progress, StepReport
from similis.values import DivergedError
from tests.run.small import ran, small, stage_of


@pytest.mark.parametrize(("asked", "multiplier"), [(7, 7), (None, losses.get("proxy_anchor").lr_multiplier)])
def test_a_rate_of_the_loss_that_is_asked_for_wins_over_its_own(asked, multiplier, tmp_path):
    task = build_task(stage_of(tmp_path, training__loss_multiplier=asked, training__head_multiplier=3))
    rates = {group["name"]: group["base_lr"] for group in task.optimiser.param_groups}
    assert rates == pytest.approx({"backbone": 0.001, "head": 0.003, "loss": 0.001 * multiplier})


def test_class_vectors_are_those_of_the_training_classes(tmp_path):
    stage = stage_of(tmp_path)
    loss = base_loss(build_task(stage).loss)
    trained = sorted(set(stage.source.manifest.labels[stage.rows].tolist()))
    assert loss.class_ids.tolist() == trained
    assert len(loss.learned["proxies"]) == len(trained) == 4


def test_only_training_rows_are_ever_seen(tmp_path):
    stage = stage_of(tmp_path)
    batches = batches_of(stage, build_task(stage))
    seen = {row for epoch in range(3) for batch in batches(epoch, 0) for row in batch.ids.tolist()}
    assert seen == set(stage.rows.tolist())


@pytest.mark.parametrize(
    ("history", "patience", "over"),
    [([0.5], 2, False), ([0.5, 0.4], 2, False), ([0.5, 0.4, 0.5], 2, True), ([0.4, 0.5, 0.3], 2, False),
     ([], 1, False)],
)  # fmt: skip
def test_patience_counts_epochs_since_the_best(history, patience, over, tmp_path):
    stage = stage_of(tmp_path, training__epochs=9, training__patience=patience)
    best = history.index(max(history)) + 1 if history else 0
    notes = {"history": history, "best": max(history, default=None), "best_epoch": best}
    recorder = Recorder(stage, build_task(stage), notes)
    assert recorder.is_over(Progress(epoch=len(history))) is over
    assert recorder.is_over(Progress(epoch=9))


def test_wrappers_hold_the_loss_they_were_given():
    spec = small(objective__loss="multi_similarity", objective__memory=8, objective__nested_sizes=[2, 8])
    objective = build_objective(spec, {0: "first", 2: "third"}, 8)
    assert type(objective).__name__ == "CrossBatchMemory"
    assert type(objective.loss).__name__ == "Nested"
    assert base_loss(objective).entry.name == "multi_similarity"
    assert next(islice(objective.parameters(), 1), None) is None  # nothing to learn in it


@pytest.mark.slow  # the compiler takes half a minute
def test_a_compiled_run_is_the_eager_one_but_for_rounding(tmp_path):
    """With an average and a gradient cache; without batch norm, whose statistics spread a difference."""
    changes = {"model__freeze_batch_norm": True, "training__chunk": 7, "training__average_decay": 0.9}
    eager, compiled = (ran(tmp_path / str(on), training__compile=on, **changes) for on in (False, True))
    assert compiled.address != eager.address
    for file in ("model.safetensors", "embeddings.safetensors"):
        want, found = (load_file(each.folder / file) for each in (eager, compiled))
        assert list(found) == list(want)
        torch.testing.assert_close(found, want, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("changes", "loss"), [({}, True), ({"objective__memory": 40}, False)])
def test_network_and_loss_are_compiled_where_asked_for(changes, loss, tmp_path):
    name = {"objective__loss": "contrastive"}
    task = build_task(stage_of(tmp_path, training__compile=True, **name, **changes))
    plain = build_task(stage_of(tmp_path, **name, **changes))
    assert [is_compiled(task.model), is_compiled(task.loss)] == [True, loss]
    assert not is_compiled(plain.model)
    assert list(task.model.state_dict()) == list(plain.model.state_dict())


def test_a_loss_that_is_no_number_stops_the_training_before_a_checkpoint_keeps_it(tmp_path):
    wild = {"objective__loss": "normface", "objective__options": {"scale": 1e39}}  # more than a float holds
    with pytest.raises(
        DivergedError, match=r"normface is (nan|inf) at step 1 \(epoch 1\) of stage select.*training.lr=0.0001"
    ):
        ran(tmp_path, **wild)
    assert not list(tmp_path.rglob("checkpoint*"))


def test_fp16_may_lose_steps_in_which_its_scaler_skips_the_weights(tmp_path):
    stage = stage_of(tmp_path, training__precision="fp16", training__checkpoint_steps=100)
    recorder = Recorder(stage, build_task(stage), {})
    for number, value in enumerate([*[math.inf] * (LOG_STEPS - 1), 1.0, *[math.nan] * (LOG_STEPS - 1)], 1):
        recorder.on_step(StepReport(Progress(step=number), torch.tensor(value), 12, 0.1))
    with pytest.raises(DivergedError, match="step 99"):
        recorder.on_step(StepReport(Progress(step=99), torch.tensor(math.nan), 12, 0.1))


def is_compiled(module) -> bool:
    return module._compiled_call_impl is not None
