"""Offline mining in a run: mined when it is due, from the weights of that moment, and exact however it is run."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from similis.engine.launch_ranks import launch
from similis.registry import losses
from similis.retrieval.embed import embed
from similis.retrieval.offline_mining import mine_offline
from similis.run.distributed import run_on_ranks
from similis.run.fit import run_stage
from similis.run.machine import Machine
from similis.run.parts import epoch_batches
from similis.run.recorder import Recorder, refresh_table
from similis.run.stage import Stage, batches_of, build_task
from similis.training.folder import RunFolder
from similis.training.loop import Progress
from similis.values import Batch, UserError
from tests.run.small import folder_in, kill_at, ran, remains, small, stage_of

# 4 training classes of 12 images, 4 batches an epoch; mined before epochs 1 and 3.
MINED = {
    "data__source": "synthetic?classes=12&images=12&size=16", "objective__loss": "contrastive",
    "training__sampler": "mined", "training__mining__kind": "semi_hard", "training__mining__every_epochs": 2,
    "training__mining__top_k": 5, "training__epochs": 4,
}  # fmt: skip
KINDS = ("hard", "semi_hard", "neighbours")


def mined_stage(root, **changes) -> Stage:
    return stage_of(root, **{**MINED, **changes})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One run that several tests look at."""
    return ran(tmp_path_factory.mktemp("whole"), **MINED)


def test_mining_is_done_every_n_epochs_and_its_time_is_told(whole):
    lines = [r for r in RunFolder(whole.folder).records() if "mined_anchors" in r]
    assert [(r["stage"], r["step"]) for r in lines if r["stage"] == "select"] == [("select", 1), ("select", 9)]
    refits = [r["step"] for r in lines if r["stage"] == "refit"]
    assert refits == [1, 13][: (whole.epochs + 1) // 2]  # 72 images, 6 batches
    assert all(r["mined_anchors"] > 0 for r in lines)
    assert whole.cost["mining_seconds"] == pytest.approx(sum(r["mining_seconds"] for r in lines), abs=1e-3)
    assert json.loads((whole.folder / "result.json").read_text())["cost"] == dict(whole.cost)


def test_a_run_that_does_not_mine_has_no_such_cost(tmp_path):
    plain = ran(tmp_path, objective__loss="contrastive")
    assert dict(plain.cost) == {}
    assert not [r for r in RunFolder(plain.folder).records() if "mining_seconds" in r]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than cores are the point here
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_change_no_number(whole, workers, tmp_path):
    assert remains(ran(tmp_path, workers=workers, **MINED).folder) == remains(whole.folder)


OTHERS = (("step", 1), ("step", 9), ("step", 11), ("validation", 2))


@pytest.mark.parametrize(
    ("moment", "number"), [("step", 6), *(pytest.param(*each, marks=pytest.mark.slow) for each in OTHERS)]
)
def test_killed_in_mid_epoch_it_goes_on_with_the_table_it_had(whole, tmp_path, moment, number):
    """Step 6 is in an epoch that mines nothing: only the checkpoint has its table."""
    kill_at(tmp_path, MINED, moment, number)
    kept = folder_in(tmp_path) / "checkpoint-select.safetensors"
    assert kept.exists() == (number > 1)
    if kept.exists():
        with safe_open(kept, framework="pt") as file:
            assert file.get_tensor("table/negatives").shape == (48, 5)
    assert remains(ran(tmp_path, **MINED).folder) == remains(whole.folder)


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_is_that_of_the_weights_of_the_moment_in_evaluation_mode(tmp_path, kind):
    stage = mined_stage(tmp_path, training__mining__kind=kind)
    task = build_task(stage)
    task.model.train()
    recorder = Recorder(stage, task, {"mining_seconds": 0.0})
    recorder.mine(Progress())
    first = dict(task.tables)
    assert task.model.training, "mining leaves the mode as it was"
    with torch.no_grad():
        for p in task.model.parameters():
            p.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(1)))
    recorder.mine(Progress(epoch=1))
    assert all(torch.equal(task.tables[key], first[key]) for key in first), "not due yet"
    recorder.mine(Progress(epoch=2))
    assert not torch.equal(task.tables["negatives"], first["negatives"])
    found = embed(task.model.eval(), stage.parts.loader.ordered(stage.rows, batch_size=100), count=48)
    labels = stage.source.manifest.labels[stage.rows]
    for i, row in enumerate(task.tables["negatives"].tolist()):
        s = torch.nn.functional.normalize(found.vectors, dim=1) @ torch.nn.functional.normalize(found.vectors[i], dim=0)
        allowed = labels != labels[i]
        if kind == "semi_hard":
            allowed &= s < s[task.tables["positives"][i]]
        want = sorted(allowed.nonzero().flatten().tolist(), key=lambda j: -float(s[j]))[:5]
        assert [float(s[j]) for j in row if j >= 0] == pytest.approx([float(s[j]) for j in want], abs=1e-5)


def test_semi_hard_positives_are_drawn_anew_by_seed_and_epoch(tmp_path):
    stage = mined_stage(tmp_path)
    module, loader, rows = stage.parts.trained, stage.parts.loader, stage.rows
    first, again, later = (refresh_table(module, loader, rows, stage.spec, epoch=e).positives for e in (0, 0, 2))
    other = refresh_table(module, loader, rows, small(**MINED, seed=1), epoch=0).positives
    assert torch.equal(first, again)
    assert not torch.equal(first, later)
    assert not torch.equal(first, other)


def groups(stage: Stage, epoch: int) -> list[list[int]]:
    """The quadruples of an epoch as places in the training rows."""
    task = build_task(stage)
    Recorder(stage, task, {"mining_seconds": 0.0}).mine(Progress())
    batches: list[Batch] = list(batches_of(stage, task)(epoch, 0))
    assert [len(b.ids) for b in batches] == [12] * 4
    return torch.searchsorted(stage.rows, torch.cat([b.ids for b in batches])).view(-1, 4).tolist()


def test_neighbours_are_random_pairs_with_the_nearest_negative_of_either_end(tmp_path):
    stage = mined_stage(tmp_path, training__mining__kind="neighbours", training__mining__top_k=None)
    labels = stage.source.manifest.labels[stage.rows]
    found = embed(stage.parts.trained, stage.parts.loader.ordered(stage.rows, batch_size=100), count=48)
    nearest = mine_offline(found, 1).negatives.flatten().tolist()
    first, second = groups(stage, 0), groups(stage, 1)
    for i, j, n, m in [*first, *second]:
        assert labels[i] == labels[j]
        assert i != j
        assert (n, m) == (nearest[i], nearest[j])
    pairs = [{i: j for i, j, _, _ in each} for each in (first, second)]
    both = pairs[0].keys() & pairs[1].keys()
    assert any(pairs[0][i] != pairs[1][i] for i in both), "pairs are drawn anew in every epoch"


PAIR = [(entry.name, {}) for entry in losses if not entry.learns]
OWN = [("proxy_repulsion", {"form": form}) for form in ("proxies", "samples", "hybrid")]
FAST = [("contrastive", {}), ("lifted", {}), OWN[1]]  # pairs, mined tuples, proxies; the others are long proofs


@pytest.mark.parametrize(
    ("name", "options"),
    [pytest.param(*each, marks=() if each in FAST else pytest.mark.slow) for each in [*PAIR, *OWN]],
)
def test_every_pair_loss_and_the_thesis_own_train_on_mined_batches(tmp_path, name, options):
    changes = {"objective__loss": name, "objective__options": options, "training__epochs": 1}
    stage = mined_stage(tmp_path, **changes)
    before = [p.detach().clone() for p in stage.parts.trained.parameters()]
    run_stage(stage)
    values = [r["loss"] for r in stage.folder.records() if "loss" in r]
    assert len(values) == 4
    assert torch.tensor(values).isfinite().all()
    assert any(not torch.equal(a, b) for a, b in zip(before, stage.parts.trained.parameters(), strict=True))


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_a_model_that_collapsed_gets_random_batches_and_the_log_says_that_nothing_was_mined(tmp_path, value):
    stage = mined_stage(tmp_path)
    with torch.no_grad():
        for p in stage.parts.model.head_parameters:
            p.fill_(value)
    task = build_task(stage)
    Recorder(stage, task, {"mining_seconds": 0.0}).mine(Progress())
    (line,) = stage.folder.records()
    assert line["mined_anchors"] == 0
    batches = list(batches_of(stage, task)(0, 0))
    assert len(torch.cat([b.ids for b in batches]).unique()) == 48


def test_a_frozen_backbone_is_mined_through_its_cached_features(tmp_path):
    result = ran(tmp_path, **MINED, model__trains="head", training__refit=False)
    assert len([r for r in RunFolder(result.folder).records() if "mined_anchors" in r]) == 2


def test_batches_that_are_no_quadruples_are_refused_before_anything_is_embedded(tmp_path):
    with pytest.raises(UserError, match="multiple of 4"):
        build_task(mined_stage(tmp_path, training__batch_size=10))
    stage = mined_stage(tmp_path)
    with pytest.raises(UserError, match="mine the rows first"):
        epoch_batches(stage.spec, stage.source, stage.rows, 0)


def table_here(communicator, root: Path) -> list[torch.Tensor]:
    """What one process holds when the processes' weights are not the same to the bit."""
    stage = mined_stage(root / str(communicator.rank))
    with torch.no_grad():
        for p in stage.parts.trained.parameters():
            p.add_(communicator.rank * torch.randn(p.shape, generator=torch.Generator().manual_seed(3)))
    parts, rows = stage.parts, stage.rows
    table = refresh_table(parts.trained, parts.loader, rows, stage.spec, epoch=0, communicator=communicator)
    return [*table, epoch_batches(stage.spec, stage.source, stage.rows, 0, table)]


@pytest.mark.slow
def test_every_process_has_the_table_of_the_first(tmp_path):
    first, second = launch(table_here, 2, tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.slow
def test_two_processes_train_on_the_batches_of_one(tmp_path):
    """Until the second mining: where two images are all but equally far, rounding decides which one is listed."""
    changes = {**MINED, "model__freeze_batch_norm": True, "training__refit": False}
    one = ran(tmp_path / "one", **changes)
    two = run_on_ranks(small(**changes), Machine(root=tmp_path / "two", cache_bytes=2**20), ranks=2)
    curves = [[r["loss"] for r in RunFolder(each.folder).records() if "loss" in r] for each in (one, two)]
    assert [len(each) for each in curves] == [16, 16]
    assert curves[0][:8] == pytest.approx(curves[1][:8], rel=1e-3)
    assert two.cost["mining_seconds"] > 0
