"""What every registered miner keeps: valid tuples, repeatable draws, poor batches, its place in a loss."""

import functools
import inspect

import pytest
import torch

from similis.objective.loss import loss
from similis.objective.miners.distance_weighted import distance_weighted
from similis.objective.miners.random import random
from similis.objective.references import Block, batch_references
from similis.registry import losses, miners
from similis.values import Pairs, Triplets
from tests.batches import random_batch
from tests.objective.miners.plain_sets import random_seen, seen

NAMES = [entry.name for entry in miners]
USERS = [(user.name, miner.name) for user in losses for miner in miners if user.accepts == miner.returns]


def mine(name, batch, seed=0):
    function = miners.get(name).function
    more = {"dim": 5} if "dim" in inspect.signature(function).parameters else {}
    return function(*batch, generator=torch.Generator().manual_seed(seed), **more)


@pytest.mark.parametrize("name", NAMES)
def test_tuples_are_valid_and_repeatable(name):
    for seed in range(4):
        s, positive, negative = random_seen(seed)
        found, again = mine(name, (s, positive, negative), seed), mine(name, (s, positive, negative), seed)
        assert isinstance(found, Pairs if miners.get(name).returns == "pairs" else Triplets)
        assert all(torch.equal(a, b) and a.dtype == torch.int64 for a, b in zip(found, again, strict=True))
        p, n = (found[:2], found[2:]) if len(found) == 4 else (found[:2], found[::2])
        assert positive[p].all()
        assert negative[n].all()
        assert found.counts().tuples > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_global_generator_is_left_alone(name):
    before = torch.random.get_rng_state()
    mine(name, random_seen(0))
    function = miners.get(name).function
    function(*random_seen(0), **({"dim": 5} if name == "distance_weighted" else {}))
    assert torch.equal(torch.random.get_rng_state(), before)


def poor_batches():
    x, _ = random_batch(0, duplicates=False)
    return {
        "no positives": (x[:4], torch.arange(4)),
        "one class": (x[:4], torch.zeros(4, dtype=torch.int64)),
        "one sample": (x[:1], torch.zeros(1, dtype=torch.int64)),
    }


@pytest.mark.parametrize("what", list(poor_batches()))
@pytest.mark.parametrize("name", NAMES)
def test_poor_batches_give_pairs_of_one_kind_or_nothing(name, what):
    want = 0 if what == "one sample" else {"all_pairs": 12, "disjoint_pairs": 2}.get(name, 0)
    assert mine(name, seen(*poor_batches()[what])).counts().tuples == want


@pytest.mark.parametrize(("user", "name"), USERS)
def test_losses_stay_finite_on_what_is_mined(user, name):
    x, labels = random_batch(5)
    batches = {**poor_batches(), "twins": (x[:1].expand(6, -1), torch.tensor([0, 0, 1, 1, 2, 2])), "rich": (x, labels)}
    for what, (batch, names) in batches.items():
        made = loss(user, num_classes=4, dim=5, miner=name)
        rows = batch.float().clone().requires_grad_()
        value = made(rows, names)
        value.backward()
        assert value.isfinite(), what
        assert rows.grad is not None, what
        assert rows.grad.isfinite().all(), what
        assert made.mined is not None
    assert made.mined.tuples > 0


def test_a_loss_hands_over_its_generator_and_the_embedding_size():
    x, labels = random_batch(1)
    made = loss("triplet", miner="distance_weighted", reduction="mean", margin=2.0)
    values = [made(x, labels).item() for _ in range(6)]
    assert len(set(values)) > 1  # each call draws anew
    state = {key: value.clone() for key, value in made.state_dict().items()}
    later = [made(x, labels).item() for _ in range(3)]
    again = loss("triplet", miner="distance_weighted", reduction="mean", margin=2.0)
    assert [again(x, labels).item() for _ in range(6)] == values
    again = loss("triplet", miner="distance_weighted", reduction="mean", margin=2.0)
    again.load_state_dict(state)
    assert [again(x, labels).item() for _ in range(3)] == later
    other = loss("triplet", miner="distance_weighted", reduction="mean", margin=2.0, seed=1)
    assert [other(x, labels).item() for _ in range(6)] != values


def test_what_a_caller_has_set_is_not_set_again():
    sizes = []

    def noting(similarity, positive, negative, *, dim=None, generator=None):
        sizes.append((dim, generator is not None))
        return random(similarity, positive, negative, generator=generator)

    def plain(similarity, positive, negative):
        sizes.append("plain")
        return random(similarity, positive, negative)

    for miner in (noting, functools.partial(noting, dim=64), plain):
        loss("triplet", miner=miner)(*random_batch(0))
    assert sizes == [(5, True), (64, True), "plain"]
    assert loss("triplet", miner=functools.partial(distance_weighted, dim=64))(*random_batch(0)).isfinite()


def test_mined_tuples_reach_into_a_memory():
    x, labels = random_batch(0)
    old, old_labels = random_batch(9)
    memory = Block(old, old_labels, own=torch.arange(11), ids=torch.arange(11) + 20)
    made = loss("triplet", miner="all_triplets")
    references = batch_references(x, labels, memory)
    assert made(x, labels, references=references).item() == pytest.approx(
        loss("triplet")(x, labels, references=references).item(), abs=1e-12
    )


def test_autocast_does_not_round_the_similarities():
    x, labels = random_batch(3)
    x = x.float()
    made = loss("triplet", miner="batch_hard", reduction="mean")
    want = made(x, labels).item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert made(x, labels).item() == want
