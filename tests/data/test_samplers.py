"""Samplers: form, coverage, shards, chance and refusals."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from similis.data.samplers.balanced import balanced
from similis.data.samplers.random import random
from similis.data.sampling import samplers, shard_batches
from similis.values import UserError


@st.composite
def cases(draw):
    sizes = draw(st.lists(st.integers(1, 30), min_size=2, max_size=12))
    labels = torch.tensor([label * 7 for label, size in enumerate(sizes) for _ in range(size)])
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))]
    per_class = draw(st.integers(1, 5))
    most = min(len(sizes), len(labels) // per_class)
    if most < 1:
        per_class, most = 1, min(len(sizes), len(labels))
    return labels, per_class, per_class * draw(st.integers(1, most))


@given(cases(), st.integers(0, 2**64 - 1), st.integers(0, 1000))
def test_every_batch_has_p_classes_with_k_images(case, seed, epoch):
    labels, per_class, batch_size = case
    sizes = Counter(labels.tolist())
    batches = balanced(labels, batch_size=batch_size, seed=seed, epoch=epoch, per_class=per_class)
    assert batches.shape == (len(labels) // batch_size, batch_size)
    for batch in batches:
        groups = batch.view(-1, per_class)
        assert all(len(set(labels[group].tolist())) == 1 for group in groups)
        assert len(set(labels[groups[:, 0]].tolist())) == len(groups)
        for group in groups:
            assert len(set(group.tolist())) == min(per_class, sizes[int(labels[group[0]])])


@given(cases(), st.integers(0, 100))
def test_coverage_is_the_best_possible(case, epoch):
    """Classes first, then images: compared with a search over all ways to give places, by dynamic programming."""
    labels, per_class, batch_size = case
    batches = balanced(labels, batch_size=batch_size, seed=1, epoch=epoch, per_class=per_class)
    sizes, number = list(Counter(labels.tolist()).values()), len(batches)
    places = number * (batch_size // per_class)
    best = {0: (0, 0)}  # places given -> (classes, images) at most
    for size in sizes:
        reached = {}
        for used, (classes, images) in best.items():
            for more in range(min(number, places - used) + 1):
                value = (classes + (more > 0), images + min(size, more * per_class))
                reached[used + more] = max(reached.get(used + more, (0, 0)), value)
        best = reached
    rows = batches.unique()
    covered = (len(labels[rows].unique()), len(rows))
    if places < len(sizes):  # classes are drawn without regard to size, see below
        assert covered[0] == places == best[places][0]
    else:
        assert covered == best[places]


@given(cases(), st.integers(0, 100), st.integers(1, 4))
def test_shards_joined_are_the_batches(case, epoch, world):
    labels, per_class, batch_size = case
    batches = balanced(labels, batch_size=batch_size, seed=3, epoch=epoch, per_class=per_class)
    if world > batch_size:
        with pytest.raises(UserError):
            shard_batches(batches, 0, world)
        return
    parts = [shard_batches(batches, rank, world) for rank in range(world)]
    assert torch.equal(torch.cat(parts, dim=1), batches)
    widths = [part.shape[1] for part in parts]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] - widths[-1] <= 1
    with pytest.raises(UserError):
        shard_batches(batches, world, world)


def test_epochs_and_seeds_differ_and_repeat():
    labels = torch.arange(10).repeat_interleave(8)
    options = {"batch_size": 8, "per_class": 2}
    first = balanced(labels, seed=1, epoch=0, **options)
    assert torch.equal(first, balanced(labels, seed=1, epoch=0, **options))
    assert not torch.equal(first, balanced(labels, seed=1, epoch=1, **options))
    assert not torch.equal(first, balanced(labels, seed=2, epoch=0, **options))


def test_global_random_state_is_neither_read_nor_written():
    labels = torch.arange(10).repeat_interleave(8)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    one = balanced(labels, batch_size=8, seed=1, epoch=0, per_class=2)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(1)
    assert torch.equal(one, balanced(labels, batch_size=8, seed=1, epoch=0, per_class=2))


def test_classes_meet_at_random():
    """Each pair of 20 classes shares a batch about equally often over many epochs."""
    labels = torch.arange(20).repeat_interleave(20)
    together = torch.zeros(20, 20)
    for epoch in range(60):
        for batch in balanced(labels, batch_size=20, seed=0, epoch=epoch, per_class=4):
            present = labels[batch].unique()
            together[present[:, None], present] += 1
    pairs = together[~torch.eye(20, dtype=torch.bool)]
    expected = 60 * 20 * (5 * 4) / (20 * 19)  # epochs x batches x ordered pairs in a batch / ordered pairs
    assert float(pairs.mean()) == pytest.approx(expected)
    # Five standard deviations of a count.
    assert float((pairs - expected).abs().max()) < 5 * expected**0.5


def test_batches_of_one_epoch_hold_different_classes():
    """Places dealt in turn and not mixed would give 4 sets of classes, each five times."""
    labels = torch.arange(20).repeat_interleave(20)
    for epoch in range(5):
        batches = balanced(labels, batch_size=20, seed=0, epoch=epoch, per_class=4)
        assert len({frozenset(labels[batch].tolist()) for batch in batches}) >= 19


def test_small_classes_are_not_starved_where_places_are_few():
    labels = torch.tensor([*([0] * 9), *([1] * 9), 2, 3, 4, 5])  # 22 images, 5 batches with one place each, 6 classes
    drawn = [labels[balanced(labels, batch_size=4, seed=0, epoch=e, per_class=4)].unique().tolist() for e in range(200)]
    assert all(len(classes) == 5 for classes in drawn)
    left_out = torch.tensor([15 - sum(classes) for classes in drawn]).bincount(minlength=6)
    assert int(left_out.min()) > 10  # each of the six is left out a sixth of the time, 33 of 200


def test_what_is_left_out_changes_with_the_epoch():
    labels = torch.arange(4).repeat_interleave(7)
    seen = [set(balanced(labels, batch_size=8, seed=0, epoch=e, per_class=4).flatten().tolist()) for e in range(10)]
    assert len(seen[0]) < len(labels)
    assert set.union(*seen) == set(range(len(labels)))


@pytest.mark.parametrize(
    ("batch_size", "per_class", "message"),
    [(10, 3, "multiple"), (100, 5, "do not fill"), (20, 1, "wants 20 classes"), (0, 1, "at least one")],
)
def test_impossible_batches_are_refused(batch_size, per_class, message):
    labels = torch.arange(5).repeat_interleave(5)
    with pytest.raises(UserError, match=message):
        balanced(labels, batch_size=batch_size, seed=0, epoch=0, per_class=per_class)


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
    assert {entry.name for entry in samplers} == {"balanced", "random", "mined"}
    with pytest.raises(UserError, match="did you mean 'balanced'"):
        samplers.get("balance")
