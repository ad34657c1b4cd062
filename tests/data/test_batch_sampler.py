"""Balanced batches for any loader: those of a run, whole over ranks, resumable."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import similis
from similis.data.sampling import samplers
from similis.values import UserError

LABELS = torch.arange(60) % 6


def test_batches_are_those_of_similis_train():
    sampler = similis.BalancedBatchSampler(LABELS, classes=3, per_class=4, seed=7)
    for epoch in range(2):
        want = samplers.get("balanced").function(LABELS, batch_size=12, seed=7, epoch=epoch, per_class=4)
        assert list(sampler) == want.tolist()


@pytest.mark.parametrize("world", [2, 3, 5])
def test_ranks_together_see_each_batch_once(world):
    whole = list(similis.BalancedBatchSampler(LABELS, classes=4, per_class=3))
    parts = [
        list(similis.BalancedBatchSampler(LABELS, classes=4, per_class=3, rank=r, world_size=world))
        for r in range(world)
    ]
    assert [[row for part in batch for row in part] for batch in zip(*parts, strict=True)] == whole


def test_it_goes_on_in_mid_epoch_on_another_number_of_ranks():
    straight = similis.BalancedBatchSampler(LABELS, classes=4, per_class=3, seed=1)
    want = [*straight, *straight]
    broken = similis.BalancedBatchSampler(LABELS, classes=4, per_class=3, seed=1)
    reading = iter(broken)
    seen = [next(reading) for _ in range(3)]
    rest = [
        similis.BalancedBatchSampler(LABELS, classes=4, per_class=3, seed=1, rank=r, world_size=2) for r in range(2)
    ]
    for each in rest:
        each.load_state_dict(broken.state_dict())
    seen += [one + two for _ in range(2) for one, two in zip(*rest, strict=True)]
    assert seen == want


def test_a_loader_takes_it():
    data = TensorDataset(torch.arange(60), LABELS)
    loader = DataLoader(data, batch_sampler=similis.BalancedBatchSampler(LABELS.tolist(), classes=3, per_class=2))
    assert len(loader) == 10
    for _, labels in loader:
        assert labels.unique(return_counts=True)[1].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"classes": 7}, "a batch takes 1 to 6 classes"), ({"classes": 2, "rank": 3, "world_size": 2}, "rank 3 of 2")],
)
def test_what_cannot_be_drawn_is_refused_at_once(options, message):
    with pytest.raises(UserError, match=message):
        similis.BalancedBatchSampler(LABELS, per_class=2, **options)


def test_a_trainer_that_stops_at_the_last_batch_gets_the_next_epoch_whole():
    whole = similis.BalancedBatchSampler(LABELS, classes=3, per_class=4)
    want = [list(whole) for _ in range(3)]
    sampler, found = similis.BalancedBatchSampler(LABELS, classes=3, per_class=4), []
    for epoch in range(3):
        sampler.set_epoch(epoch) if epoch == 2 else None
        reading = iter(sampler)
        found.append([next(reading) for _ in range(len(sampler))])  # never asks for one more
    assert found == want
    again = similis.BalancedBatchSampler(LABELS, classes=3, per_class=4)
    again.load_state_dict({"epoch": 0, "batch": len(again)})
    assert list(again) == want[1]
