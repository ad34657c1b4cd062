"""Random batches: each row at most once, as many batches as fit."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from similis.data.samplers.random import random
from similis.data.sampling import samplers, shard
from similis.values import UserError


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 2**64 - 1), st.integers(0, 50))
def test_each_row_at_most_once(rows, batch_size, seed, epoch):
    labels = torch.zeros(rows, dtype=torch.int64)
    if batch_size > rows:
        with pytest.raises(UserError, match="do not fill"):
            random(labels, batch_size=batch_size, seed=seed, epoch=epoch)
        return
    batches = random(labels, batch_size=batch_size, seed=seed, epoch=epoch)
    assert batches.shape == (rows // batch_size, batch_size)
    assert len(batches.unique()) == batches.numel()
    assert 0 <= int(batches.min()) <= int(batches.max()) < rows
    assert torch.equal(batches, random(labels, batch_size=batch_size, seed=seed, epoch=epoch))


def test_all_positions_are_equally_likely():
    labels = torch.zeros(8)
    first = torch.stack([random(labels, batch_size=2, seed=0, epoch=epoch)[0, 0] for epoch in range(800)])
    assert float((first.bincount(minlength=8) - 100).abs().max()) < 50


def test_samplers_are_known_by_name():
    assert {entry.name for entry in samplers} == {"balanced", "random", "hierarchical", "mined"}
    with pytest.raises(UserError, match="did you mean 'balanced'"):
        samplers.get("balance")


def test_uneven_shards_have_every_column_once():
    batches = torch.arange(14).view(2, 7)
    parts = [shard(batches, rank, 3) for rank in range(3)]
    assert [part.shape[1] for part in parts] == [3, 2, 2]
    assert torch.equal(torch.cat(parts, 1), batches)
    with pytest.raises(UserError):
        shard(batches, 3, 3)
