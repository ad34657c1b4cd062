"""Whole runs on the device: every protocol and every way to train gives the bits of the CPU."""

from __future__ import annotations

import json
from multiprocessing import get_context

import pytest
import torch
from safetensors.torch import load_file

from similis.engine.device import total_memory
from similis.model.finished import finished
from similis.model.load import load
from similis.run.cost import measure_step
from similis.run.fitted_settings import fit_defaults
from similis.run.machine import Machine
from similis.run.prepared import prepare
from similis.run.recorder import LOG_STEPS
from similis.run.run import run
from similis.training.folder import RunFolder
from tests.accelerator.ranks import run_both, train_rank, train_until
from tests.data.pictures import picture
from tests.run.small import small

CPU_BITS = ("model.safetensors", "scores.safetensors", "embeddings.safetensors")
WAYS = {
    "proxies": {},
    "default": {"data__protocol": "default"},
    "folds": {"data__protocol": "cross-validation", "data__folds": 3},
    "fixed length": {"training__select": "last"},
    "pairs": {"objective__loss": "multi_similarity"},
    "miner": {"objective__loss": "triplet", "objective__miner": "semi_hard"},
    "memory": {"objective__loss": "contrastive", "objective__memory": 40},
    "mining": {"objective__loss": "lifted", "training__sampler": "mined"},
    "nested": {"objective__nested_sizes": (4, 8)},
    "average": {"training__average_decay": 0.9},
    "head only": {"model__trains": "head", "model__freeze_batch_norm": True},
    "chunks": {"training__chunk": 5, "model__freeze_batch_norm": True},
    "clipped": {"training__clip_norm": 0.5, "training__optimiser": "sgd"},
    "frozen first": {"training__frozen_epochs": 1},
    "no head, layer-wise": {"model__dim": None, "training__layer_decay": 0.5},
    "interpolated": {"model__dim": None, "training__interpolate": (0.0, 0.5, 1.0), "training__lr": 0.01},
    "two views": {"objective__loss": "nt_xent", "training__views": 2, "training__labelled": False},
}


def assert_same_bits(here, there):
    """The tensors that two runs leave, and their numbers."""
    expected, found = (
        {f"{name}/{key}": value for name in CPU_BITS for key, value in load_file(each.folder / name).items()}
        for each in (here, there)
    )
    numbers = [
        json.dumps([each.validation, each.history, each.test, each.whole, each.before]) for each in (here, there)
    ]
    assert numbers[0] == numbers[1]
    assert expected.keys() == found.keys()
    assert [key for key in expected if not torch.equal(expected[key], found[key])] == []


def mostly_slow(ways, *kept):
    """Ways of which only some are no long proofs."""
    return [pytest.param(way, marks=() if way in kept else pytest.mark.slow) for way in ways]


@pytest.mark.parametrize("way", mostly_slow(WAYS, "proxies", "memory"))
def test_a_run_gives_the_bits_of_the_cpu(way, device, tmp_path):
    spec = small(**WAYS[way])
    here, there = (run(spec, Machine(root=tmp_path / name, device=name)) for name in ("cpu", str(device)))
    assert there.facts["device"] == device.type
    assert here.address != there.address
    assert_same_bits(here, there)


def test_a_plan_is_timed_on_the_device(device, tmp_path):
    machine = Machine(root=tmp_path, device=str(device))
    fitted = fit_defaults(prepare(small(), machine), {})
    spec = fitted.spec
    assert (spec.model.image_size, spec.evaluation.batch_size) == (16, 100)  # as they were: it is no processor
    assert total_memory(machine.chosen) > 0
    assert all(seconds > 0 for seconds in measure_step(fitted)[:2])


def test_the_model_object_gives_the_bits_of_the_cpu(device, tmp_path):
    result = run(small(), Machine(root=tmp_path, device="cpu"))
    here, there = (load(result.folder, device=name) for name in ("cpu", str(device)))
    items = [picture(seed) for seed in range(9)]
    assert torch.equal(here.encode(items), there.encode(items))
    for model in (here, there):
        model.add(items[:8], labels=[str(n % 4) for n in range(8)], ids=[str(n) for n in range(8)])
    assert here.search(items[8], 5) == there.search(items[8], 5)
    assert here.classify(items, 3) == there.classify(items, 3)
    assert here.threshold(far=0.2) == there.threshold(far=0.2)
    ours, theirs = (model.explain(items[0], items[1]) for model in (here, there))
    assert torch.equal(ours.parts, theirs.parts)


@pytest.mark.parametrize("way", mostly_slow(["proxies", "memory", "mining", "average"]))
def test_killed_in_mid_epoch_it_goes_on_with_the_bits_of_an_undisturbed_run(way, device, tmp_path):
    changes = WAYS[way] | {"training__checkpoint_steps": 2}
    words = (3, device.type, str(tmp_path / "killed"), changes)
    process = get_context("spawn").Process(target=train_until, args=words)
    process.start()
    process.join()
    assert process.exitcode == -9
    killed, whole = (
        run(small(**changes), Machine(root=tmp_path / name, device=str(device))) for name in ("killed", "whole")
    )
    assert_same_bits(whole, killed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "more"),
    [pytest.param("proxies", {"shard_classes": True}, id="sharded proxies"),
     *(pytest.param(way, {}, id=way) for way in ("proxies", "pairs", "memory", "mining"))],
)  # fmt: skip
def test_two_ranks_whose_group_takes_tensors_of_the_device_alone(way, more, device, tmp_path):
    changes = WAYS[way] | {"model__freeze_batch_norm": True}
    for name in ("cpu", device.type):
        run_both(train_rank, str(tmp_path), name, changes, more)
    here, there = (finished(tmp_path / name) for name in ("cpu", device.type))
    assert_same_bits(here, there)


@pytest.mark.parametrize("backbone", mostly_slow(["vit_tiny_patch16_224", "convnext_atto"], "vit_tiny_patch16_224"))
def test_networks_of_timm_differ_by_rounding_at_most(backbone, device, tmp_path):
    """Kernels of their own for attention and norms add in another order."""
    changes = {"model__backbone": backbone, "model__image_size": 32, "model__options": {}, "training__epochs": 0}
    here, there = (run(small(**changes), Machine(root=tmp_path / n, device=n)) for n in ("cpu", str(device)))
    expected, found = (load_file(each.folder / "embeddings.safetensors")["vectors"] for each in (here, there))
    assert (expected - found).abs().max() <= 1e-6


LOOPS = {way: WAYS[way] for way in ("proxies", "pairs", "average", "memory", "nested")} | {
    "bf16": {"training__precision": "bf16"}
}
FILES = "training/tensors.py"  # a checkpoint reads every tensor


@pytest.mark.parametrize("way", mostly_slow(LOOPS, "proxies", "bf16"))
def test_a_training_loop_waits_to_log_and_for_nothing_else(way, device, count, tmp_path):
    """Twenty epochs more; a memory looks at its rows once a step."""
    found = []
    for epochs in (1, 21):
        changes = {"training__epochs": epochs, "training__select": "last", "evaluation__test": False}
        spec = small(**LOOPS[way] | changes | {"training__checkpoint_steps": 1000})
        with count() as counts:
            done = run(spec, Machine(root=tmp_path / str(epochs), device=str(device)))
        steps = len([line for line in RunFolder(done.folder).records() if "loss" in line])
        found.append((steps, sum(number for line, number in counts.lines.items() if FILES not in line)))
    steps, waits = (later - first for first, later in zip(*found, strict=True))
    assert steps >= 20
    assert waits <= (steps if way == "memory" else 0) + steps / LOG_STEPS + 20, str(counts)  # and once an epoch


APART = {"small_conv": 0.0, "resnet18": 0.0, "convnext_atto": 0.03, "vit_tiny_patch16_224": 0.03}


@pytest.mark.slow
@pytest.mark.parametrize("backbone", APART)
def test_bf16_differs_where_autocast_has_other_lists(backbone, device, tmp_path):
    """Embeddings after an epoch, of unit length: those of a device are CUDA's lists of operators, not the CPU's."""
    changes = {"model__backbone": backbone, "model__image_size": 32, "model__options": {}, "training__epochs": 1}
    changes |= {"training__precision": "bf16", "training__select": "last", "training__optimiser": "sgd"}
    here, there = (run(small(**changes), Machine(root=tmp_path / n, device=n)) for n in ("cpu", str(device)))
    expected, found = (load_file(each.folder / "embeddings.safetensors")["vectors"] for each in (here, there))
    apart = float((expected - found).abs().max())
    print(f"{backbone}: {apart:.1e}")  # shown by pytest -rP
    assert apart <= APART[backbone]
