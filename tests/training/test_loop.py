"""The loop: it learns, it is a pure function of its seed, it freezes and clips as told."""

import pytest
import torch

from similis.objective.loss import loss
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.training.loop import Progress, train, train_step
from similis.training.optimisers import MovingAverage
from tests.training.small import BATCH, DIM, STEPS, batches, task


def fit(made, epochs=4, progress=None, stop=lambda progress: False):
    seen = []
    end = train(made, batches, progress or Progress(), after_step=seen.append, after_epoch=stop, epochs=epochs)
    return end, [report.loss.item() for report in seen]


def test_it_learns_and_counts():
    end, losses = fit(task(dropout=0.0))
    assert losses[-1] < 0.7 * losses[0]
    assert end == Progress(epoch=4, batch=0, step=4 * STEPS, samples=4 * STEPS * BATCH)


def test_dropout_draws_from_the_seed_of_the_step_and_leaves_the_global_generator_alone():
    made = task()
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = fit(made)[1]
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(2)
    assert fit(task())[1] == first
    assert fit(task(seed=8))[1] != first


def test_it_stops_when_told():
    assert fit(task(), stop=lambda progress: progress.epoch == 2)[0].epoch == 2


def test_the_backbone_stands_still_while_it_is_frozen():
    made = task(frozen_epochs=1)
    made.freeze = lambda frozen: made.model.backbone.requires_grad_(not frozen)
    start = {name: p.detach().clone() for name, p in made.model.named_parameters()}
    fit(made, epochs=1)
    moved = {name for name, p in made.model.named_parameters() if not torch.equal(p, start[name])}
    assert moved == {"head.weight", "head.bias"}
    fit(made, epochs=2, progress=Progress(epoch=1, step=STEPS))
    assert not torch.equal(made.model.backbone[0].weight, start["backbone.0.weight"])


@pytest.mark.parametrize(("clips", "norm"), [({"clip_value": 1e-4}, None), ({"clip_norm": 1e-3}, 1e-3)])
def test_gradients_are_clipped(clips, norm):
    made = task(**clips)
    train_step(made, batches(0, 0)[0], 0)
    gradients = torch.cat([p.grad.flatten() for g in made.optimiser.param_groups for p in g["params"]])
    if norm is None:
        assert gradients.abs().max() <= 1e-4
    else:
        assert gradients.norm() <= norm * 1.001


def test_the_schedule_sets_every_rate():
    made = task()
    train_step(made, batches(0, 0)[0], 0)
    factor = made.schedule.factor(0, STEPS, 20)
    assert {g["name"]: g["lr"] for g in made.optimiser.param_groups} == pytest.approx(
        {"backbone": 1e-2 * factor, "head": 1e-2 * factor, "loss": 1e-1 * factor}
    )


def test_a_memory_gets_the_image_ids():
    made = task()
    made.loss = CrossBatchMemory(loss("triplet"), size=100, dim=DIM)
    fit(made, epochs=1)
    assert set(made.loss.ids[: 4 * BATCH].tolist()) == {100 * n + i for n in range(4) for i in range(BATCH)}


def test_the_average_follows_the_weights():
    made = task(dropout=0.0)
    made.average = MovingAverage(made.model, decay=0.9)
    start = made.model.head.weight.detach().clone()
    train_step(made, batches(0, 0)[0], 0)
    expected = 0.9 * start + 0.1 * made.model.head.weight.detach()
    assert torch.allclose(made.average.model.head.weight, expected, atol=1e-7)


def test_bfloat16_trains():
    losses = fit(task(dropout=0.0, precision="bf16"))[1]
    assert losses[-1] < 0.8 * losses[0]


def half_task(scale):
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=3)
    return task(dropout=0.0, precision="fp16", scaler=scaler, clip_norm=0.1)


def test_float16_trains_with_scaled_gradients_that_are_clipped_unscaled():
    made = half_task(2.0**10)
    value = train_step(made, batches(0, 0)[0], 0)
    gradients = torch.cat([p.grad.flatten() for g in made.optimiser.param_groups for p in g["params"]])
    assert gradients.norm() == pytest.approx(0.1, rel=1e-3)
    assert value.item() == pytest.approx(train_step(task(dropout=0.0), batches(0, 0)[0], 0).item(), rel=1e-2)
    losses = fit(made)[1]
    assert losses[-1] < 0.8 * losses[0]


def test_a_step_that_overflows_is_skipped_and_the_scale_halved():
    made = half_task(2.0**40)
    before = [p.detach().clone() for p in made.model.parameters()]
    train_step(made, batches(0, 0)[0], 0)
    assert made.scaler.get_scale() == 2.0**39
    assert all(torch.equal(p, old) for p, old in zip(made.model.parameters(), before, strict=True))
