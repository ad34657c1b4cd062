"""Whole runs on the device: every protocol and every way to train gives the bits of the CPU."""

from __future__ import annotations

import json

import pytest
import torch

from similis.run.machine import Machine
from similis.run.run import run
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
}


def bits(result, address):
    """The tensors that a run leaves, and its numbers; the address is the device's own."""
    found = {}
    for name in CPU_BITS:
        from safetensors.torch import load_file

        found |= {f"{name}/{key}": value for key, value in load_file(result.folder / name).items()}
    numbers = json.dumps([result.validation, result.history, result.test, result.whole])
    return found, numbers


@pytest.mark.parametrize("way", WAYS)
def test_a_run_gives_the_bits_of_the_cpu(way, device, tmp_path):
    spec = small(**WAYS[way])
    here, there = (run(spec, Machine(root=tmp_path / name, device=name)) for name in ("cpu", str(device)))
    assert there.facts["device"] == device.type
    assert here.address != there.address
    (expected, numbers), (found, others) = bits(here, here.address), bits(there, there.address)
    assert numbers == others
    assert expected.keys() == found.keys()
    different = [key for key in expected if not torch.equal(expected[key], found[key])]
    assert different == []
