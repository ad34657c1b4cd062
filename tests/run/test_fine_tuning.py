"""Fine-tuning from the network's own features: no head, slower low layers, interpolation with the start."""

from itertools import pairwise

import pytest
import torch

from similis.model.finished import finished, trained_model
from similis.run.fit import choose_share, run_stage
from similis.run.machine import Machine
from similis.run.network import build_model
from similis.run.run import run
from similis.run.stage import batches_of, build_task
from similis.training.folder import RunFolder
from tests.run.small import ran, small, stage_of

BARE = {"model__dim": None}


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items() if value.is_floating_point()}


def test_without_a_head_and_without_epochs_the_network_is_untouched(tmp_path):
    spec = small(**BARE, training__epochs=0)
    found = trained_model(run(spec, Machine(root=tmp_path)))
    fresh = build_model(spec, Machine()).eval()
    images = torch.rand(3, 3, 16, 16)
    with torch.no_grad():
        expected = torch.nn.functional.normalize(fresh.backbone(images).mean((2, 3)))
        assert torch.allclose(found(images), expected, atol=1e-6)
    assert found.head is None
    assert found.dim == fresh.backbone.features


def test_a_network_is_trained_without_a_head(tmp_path):
    result = ran(tmp_path, **BARE, training__lr=0.01)
    before, after = build_model(small(**BARE), Machine()).state_dict(), trained_model(result).state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert result.embeddings()["vectors"].shape[1] == 128


def test_each_layer_learns_at_the_rate_of_the_one_above_times_the_decay(tmp_path):
    task = build_task(stage_of(tmp_path, training__layer_decay=0.5, training__lr=0.1))
    rates = [group["base_lr"] for group in task.optimiser.param_groups if group["name"].startswith("layer")]
    assert len(rates) > 2
    assert rates[-1] == pytest.approx(0.1)
    assert all(low == pytest.approx(0.5 * high) for low, high in pairwise(rates))
    stem = next(task.model.backbone.parameters())
    assert any(p is stem for p in task.optimiser.param_groups[0]["params"])
    held = [id(p) for group in task.optimiser.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for module in (task.model, task.loss) for p in module.parameters())


def test_a_share_of_zero_is_the_start_and_of_one_the_trained_model(tmp_path):
    start = state(build_model(small(**BARE), Machine()))
    none = ran(tmp_path / "0", **BARE, training__interpolate=[0.0])
    full = ran(tmp_path / "1", **BARE, training__interpolate=[1.0])
    half = ran(tmp_path / "2", **BARE, training__interpolate=[0.5])
    plain = state(trained_model(ran(tmp_path / "3", **BARE)))
    assert all(torch.equal(value, start[name]) for name, value in state(trained_model(none)).items())
    assert all(torch.equal(value, plain[name]) for name, value in state(trained_model(full)).items())
    for name, value in state(trained_model(half)).items():
        assert torch.allclose(value, (start[name] + plain[name]) / 2, atol=1e-6), name


def test_validation_chooses_the_share_and_of_equal_ones_the_nearest_to_the_start(tmp_path):
    result = ran(tmp_path, **BARE, training__interpolate=[1.0, 0.0, 0.5], training__lr=0.01)
    noted = {r["share"]: r["recall@1"] for r in RunFolder(result.folder).records() if "share" in r}
    assert set(noted) == {0.0, 0.5, 1.0}
    best = max(noted.values())
    assert result.facts["share"] == min(share for share, value in noted.items() if value == best)
    assert result.validation["recall@1"] == best
    assert finished(result.folder).facts["share"] == result.facts["share"]


def test_the_resolution_rises_over_the_epochs_and_evaluation_has_the_models_own(tmp_path):
    stage = stage_of(tmp_path, training__resolutions=[8, 12, 16], training__epochs=7)
    task = build_task(stage)
    sides = [next(iter(batches_of(stage, task)(epoch, 0))).images.shape[-1] for epoch in range(7)]
    assert sides == [8, 8, 8, 12, 12, 16, 16]
    assert next(iter(stage.parts.loader.ordered(stage.rows, batch_size=4))).images.shape[-1] == 16
    assert ran(tmp_path, training__resolutions=[8, 16]).epochs > 0


def test_of_equally_good_shares_the_nearest_to_the_start_is_chosen(tmp_path):
    stage = stage_of(tmp_path, **BARE, training__interpolate=[1.0, 0.25, 0.75], training__epochs=1)
    stage.validate = lambda _model: 0.5
    start = {name: value.clone() for name, value in stage.parts.model.state_dict().items()}
    found = run_stage(stage)
    assert choose_share(stage, found, start).share == 0.25
