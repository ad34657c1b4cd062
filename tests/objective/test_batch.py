"""What a loss is called with; labels of every kind are in tests/test_labels.py."""

import pytest
import torch

from similis.objective.batch import check_embeddings, encode_batch, resolve_classes
from similis.values import UserError


def test_embeddings_are_as_long_as_what_is_learned_for_each_class_but_not_as_a_margin():
    learned = {"proxies": torch.ones(3, 4), "beta": torch.ones(3), "scale": torch.ones(())}
    check_embeddings(torch.ones(2, 4), learned)
    with pytest.raises(UserError, match="5 dimensions and the proxies of the loss 4; build it with dim=5"):
        check_embeddings(torch.ones(2, 5), learned)
    with pytest.raises(UserError, match=r"embeddings are torch\.int64"):
        check_embeddings(torch.ones(2, 4).long(), {})


def test_labels_that_hold_for_one_call_are_refused_where_they_must_hold_for_more():
    assert encode_batch(["b", "a", "b"], None).tolist() == [0, 1, 0]
    assert encode_batch(["b", "a", "b"], {"a": 0, "b": 1}, "it learns").tolist() == [1, 0, 1]
    assert encode_batch([5, 7], None, "it learns").tolist() == [5, 7]  # integers mean the same everywhere
    with pytest.raises(UserError, match="labels are str, and it learns; name all classes"):
        encode_batch(["b", "a"], None, "it learns")


def test_classes_are_integers_or_names():
    assert resolve_classes(None, 3) == (None, None)
    names, ids = resolve_classes({"b", "a"}, None)
    assert (names, ids) == ({"a": 0, "b": 1}, None)
    for given in ([9, 4], torch.tensor([9, 4]), range(4, 10, 5)):
        names, ids = resolve_classes(given, 2)
        assert names is None
        assert ids.tolist() == [4, 9]
