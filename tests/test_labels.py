"""Labels of any hashable kind: the same numbers as integers give, and errors where a batch cannot know its classes."""

import enum

import numpy as np
import pytest
import torch

import similis
from similis.data.examples import FeatureData
from similis.data.samplers.balanced import balanced
from similis.data.samplers.mined import mined
from similis.labels import encode_labels, number_classes
from similis.objective.wrappers.guided import Guided
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.objective.wrappers.nested import Nested
from similis.values import Batch, Embedded, UserError
from tests.objective.test_context import Second

Kind = enum.Enum("Kind", "CAT DOG EMU")
NUMBERS = torch.tensor([2, 0, 1, 1, 0, 2])
KINDS = {
    "strings": ["emu", "cat", "dog", "dog", "cat", "emu"],
    "tuples": [("c", 2), ("a", 0), ("b", 1), ("b", 1), ("a", 0), ("c", 2)],
    "enums": [Kind.EMU, Kind.CAT, Kind.DOG, Kind.DOG, Kind.CAT, Kind.EMU],
    "mixed": [("c", 2), "cat", Kind.DOG, Kind.DOG, "cat", ("c", 2)],
    "an array of strings": np.array(["emu", "cat", "dog", "dog", "cat", "emu"]),
    "an array of integers": NUMBERS.numpy(),
    "a list of integers": NUMBERS.tolist(),
    "a list of tensors": list(NUMBERS),
}
X = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
kinds = pytest.mark.parametrize("labels", KINDS.values(), ids=KINDS)


@kinds
@pytest.mark.parametrize("name", ["triplet", "multi_similarity", "supcon", "margin"])
def test_a_loss_of_pairs_is_that_of_integers(labels, name):
    assert torch.equal(similis.loss(name)(X, labels), similis.loss(name)(X, NUMBERS))


@kinds
def test_a_loss_with_proxies_is_that_of_integers_whose_classes_are_in_the_same_order(labels):
    classes = number_classes(set(labels.tolist() if hasattr(labels, "tolist") else map(plain, labels)))
    made = similis.loss("proxy_anchor", class_ids=reversed(list(classes)), dim=8)
    numbers = torch.tensor([classes[plain(each)] for each in labels])
    assert torch.equal(made(X, labels), similis.loss("proxy_anchor", num_classes=3, dim=8)(X, numbers))


def plain(value):
    """A value as a class: a tensor of one number is that number."""
    return value.item() if isinstance(value, torch.Tensor | np.generic) else value


def test_a_tensor_is_returned_as_it_is_and_not_looked_at():
    labels = torch.empty(4, dtype=torch.int64, device="meta")  # has no values to look at
    assert encode_labels(labels) is labels
    assert similis.loss("triplet").encode(labels) is labels


@kinds
def test_evaluation_and_verification_are_those_of_integers(labels):
    cameras = ["left", "left", "right", "right", "up", "up"]
    ids = torch.arange(6)
    found = similis.evaluate(X, labels, groups=cameras)
    expected = similis.evaluate(Embedded(X, NUMBERS, ids), groups=ids // 2)
    assert found.means == pytest.approx(expected.means, nan_ok=True)
    assert torch.equal(found.neighbors.index, expected.neighbors.index)
    one, other = (similis.verify(Embedded(X, each, ids), far=0.5, fars=(0.5,)) for each in (labels, NUMBERS))
    assert (one.eer, one.genuine, one.impostors) == (other.eer, other.genuine, other.impostors)


def test_samplers_give_the_batches_of_integers():
    labels = torch.arange(8).repeat_interleave(4)
    names = [f"class {number}" for number in labels.tolist()]
    given = {"batch_size": 8, "seed": 1, "epoch": 2}
    assert torch.equal(balanced(names, per_class=2, **given), balanced(labels, per_class=2, **given))
    near = torch.arange(32).roll(8)[:, None]
    assert torch.equal(mined(names, positives=None, negatives=near, **given),
                       mined(labels, positives=None, negatives=near, **given))  # fmt: skip


@pytest.mark.parametrize("count", [6, None])
def test_an_embedding_numbers_the_labels_of_all_batches_alike(count):
    words = KINDS["strings"]
    batches = [
        Batch(X[start : start + 2], words[start : start + 2], torch.arange(start, start + 2)) for start in (0, 2, 4)
    ]
    found = similis.embed(torch.nn.Identity(), batches, count=count)
    assert found.labels.tolist() == encode_labels(words).tolist()
    assert FeatureData(X, words).labels.tolist() == found.labels.tolist()


def test_words_that_hold_for_one_call_only_are_no_labels_of_a_memory_of_ranks_or_of_proxies():
    """Numbered in the order of each batch, 'cat' of this batch would be 'dog' of the last one."""
    words = KINDS["strings"]
    with pytest.raises(UserError, match="class_ids=set"):
        CrossBatchMemory(similis.loss("triplet"), size=8, dim=8)(X, words)
    with pytest.raises(UserError, match="compares with other batches or ranks"), similis.distributed(Second()):
        similis.loss("triplet")(X, words)
    with pytest.raises(UserError, match="proxy_anchor learns something for each class"):
        similis.loss("proxy_anchor", num_classes=3, dim=8)(X, words)


def test_named_classes_go_through_every_wrapper():
    words, classes = KINDS["strings"], ["cat", "dog", "emu"]
    for name in ("proxy_anchor", "triplet"):
        sizes = {"dim": 8} if name == "proxy_anchor" else {}
        named = similis.loss(name, class_ids=classes, **sizes)
        plain_loss = similis.loss(name, num_classes=3, **sizes)
        pairs = [(Nested(named, (4, 8)), Nested(plain_loss, (4, 8)))]
        pairs += [(Guided(named, torch.eye(3)), Guided(plain_loss, torch.eye(3)))]
        pairs += [(CrossBatchMemory(named, size=8, dim=8), CrossBatchMemory(plain_loss, size=8, dim=8))]
        for one, other in pairs:
            for order in ([0, 1, 2, 3, 4, 5], [2, 1, 0, 5, 4, 3]):  # the second batch begins with another class
                named_labels = [words[row] for row in order]
                assert torch.equal(one(X, named_labels), other(X, NUMBERS[order])), type(one).__name__


def test_the_order_in_which_classes_are_named_changes_nothing():
    """A set of strings has another order in every process."""
    one, other = (similis.loss("softmax", class_ids=each, dim=8) for each in (["b", "a", "c"], ["c", "b", "a"]))
    assert torch.equal(one(X, list("abcabc")), other(X, list("abcabc")))
    assert number_classes([Kind.DOG, "a", 3]) == number_classes([3, Kind.DOG, "a"])


def test_a_state_is_loaded_only_into_a_loss_of_the_same_classes():
    saved = similis.loss("proxy_anchor", class_ids=["a", "b", "c"], dim=8).state_dict()
    same = similis.loss("proxy_anchor", class_ids=["c", "a", "b"], dim=8, seed=1)
    same.load_state_dict(saved)
    assert torch.equal(same.learned["proxies"], saved["learned.proxies"])
    with pytest.raises(UserError, match="other classes than the 3 class_ids"):
        similis.loss("proxy_anchor", class_ids=["a", "b", "d"], dim=8).load_state_dict(saved)
