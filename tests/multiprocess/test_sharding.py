"""Class vectors divided over processes: the loss, its gradients, and checkpoints for any number of processes."""

from __future__ import annotations

import pytest
import torch

from similis.objective.context import distributed
from similis.objective.sharding import shard
from similis.registry import losses
from similis.training.checkpoint import flatten_state, nest_state, restore_optimiser
from similis.training.data_parallel import sharded_keys, take_own_shards
from tests.multiprocess.agreement import assert_equal
from tests.multiprocess.work import batch, divided_several, network, objective

BY_CLASS = [entry.name for entry in losses if entry.family in ("proxy", "classification")]


def cases(name: str, **more: object) -> list[dict]:
    entry = losses.get(name)
    kinds = ["plain", "nested", *(["memory"] if entry.memory else [])]
    return [{"objective": {"name": name, "form": form, "kind": k}, **more} for form in entry.forms for k in kinds]


@pytest.mark.parametrize("name", BY_CLASS)
def test_as_undivided(two, name):
    assert_equal(two, [(case, (7, 5)) for case in cases(name)], steps=2, function=divided_several)


@pytest.mark.parametrize("name", BY_CLASS)
def test_on_three_and_four(three, four, name):
    assert_equal(three, [(case, (5, 1, 6)) for case in cases(name)], steps=2, function=divided_several)
    assert_equal(four, [(case, (5, 1, 4, 2)) for case in cases(name)], steps=2, function=divided_several)


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_CLASS)
def test_in_tiles(two, name):
    assert_equal(two, [(case, (7, 5)) for case in cases(name, tile=(3, 2))], function=divided_several)


def test_several_classes_for_a_sample(two):
    work = [({"objective": {"name": "proxy_anchor", "form": "default"}, "relation": True}, (7, 5))]
    assert_equal(two, work, function=divided_several)


def trained(communicator, name: str, steps: range, state: dict | None, counts: tuple[int, ...]):
    """Train the model's loss for some steps from a state; the whole state afterwards."""
    made = objective(name, next(iter(losses.get(name).forms)), 0, torch.float64)
    model, rank = network(0, torch.float64), 0 if communicator is None else communicator.rank
    if communicator is not None:
        shard(made, communicator)
    optimiser = torch.optim.AdamW(made.parameters(), lr=0.05)
    if state is not None:
        own = take_own_shards(state, sharded_keys(made, optimiser, state))
        made.load_state_dict(nest_state("loss", own))
        restore_optimiser(optimiser, nest_state("optimiser", own))
    for step in steps:
        inputs, labels, _ = (part.split(counts)[rank] for part in batch(step))
        optimiser.zero_grad()
        with distributed(communicator):
            made(model(inputs), labels).backward()
        optimiser.step()
    tensors = flatten_state("loss", made.state_dict())
    for number, moments in optimiser.state_dict()["state"].items():
        tensors |= flatten_state(f"optimiser.{number}", moments)
    divided = sharded_keys(made, optimiser, tensors)
    return {key: divided[key].gather(value.detach()) if key in divided else value for key, value in tensors.items()}


@pytest.mark.parametrize("name", BY_CLASS)
def test_saved_on_four_resumed_on_one_two_and_three(name, four, three, two):
    kept = four.call(trained, name, range(4), None, (3, 3, 3, 3))[0]
    want = trained(None, name, range(8), None, (12,))
    assert kept.keys() == want.keys()
    found = [trained(None, name, range(4, 8), kept, (12,))]
    found += two.call(trained, name, range(4, 8), kept, (7, 5))
    found += three.call(trained, name, range(4, 8), kept, (5, 1, 6))
    for state in found:
        for key, value in want.items():
            assert torch.allclose(state[key], value, rtol=1e-9, atol=1e-12), key


def test_a_share_is_a_share(four):
    sizes = four.call(share_sizes)
    assert [own for own, _ in sizes] == [1, 1, 1, 1]
    assert all(loss_sees == 4 for _, loss_sees in sizes)


def share_sizes(communicator):
    made = shard(objective("proxy_anchor", "default", 0, torch.float64), communicator)
    return len(made.learned["proxies"]), made.classes.size
