"""Splits are disjoint in classes, complete and repeatable; label noise stays among the training rows."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from similis.data.manifest import from_columns
from similis.data.noise import with_wrong_labels
from similis.data.open_data import open_data
from similis.data.splits import PROTOCOLS, split_data
from similis.run.machine import Machine
from similis.run.parts import open_source
from similis.run.spec import parse_spec
from similis.values import DataError, UserError


def manifest_of(sizes, official=None):
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    columns = {"label": labels, "class_name": [f"c{label}" for label in labels], "bytes": [b"x"] * len(labels)}
    if official is not None:
        columns["split"] = ["test" if official[label] else "train" for label in labels]
    return from_columns("drawn", columns)


@st.composite
def manifests(draw):
    sizes = draw(st.lists(st.integers(1, 5), min_size=6, max_size=40))
    official = None
    if draw(st.booleans()):
        official = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
        official[:3] = [False] * 3  # two classes to train on and one to validate
    return manifest_of(sizes, official)


@given(manifests(), st.sampled_from(PROTOCOLS), st.integers(0, 2**40), st.integers(2, 3), st.data())
def test_parts_are_disjoint_in_classes_complete_and_deterministic(manifest, protocol, seed, folds, data):
    options = {"protocol": protocol, "seed": seed, "folds": folds, "fold": data.draw(st.integers(0, folds - 1))}
    split = split_data(manifest, **options)
    parts = [split.train, split.validation, split.test]
    labels = manifest.labels
    classes = [set(labels[part].tolist()) for part in parts]
    assert not (classes[0] & classes[1] | classes[0] & classes[2] | classes[1] & classes[2])
    assert sorted(torch.cat(parts).tolist()) == list(range(len(manifest)))
    assert classes[0]
    assert bool(classes[1]) == (protocol != "default")
    again = split_data(manifest, **options)
    assert again.fingerprint == split.fingerprint
    assert all(torch.equal(a, b) for a, b in zip(parts, [again.train, again.validation, again.test], strict=True))
    if manifest.has("split"):
        assert all(
            (value == "test") == (row in set(split.test.tolist())) for row, value in enumerate(manifest.values("split"))
        )


@given(manifests(), st.integers(0, 1000), st.integers(2, 3))
def test_every_training_class_validates_in_exactly_one_fold(manifest, seed, folds):
    splits = [
        split_data(manifest, protocol="cross-validation", seed=seed, folds=folds, fold=fold) for fold in range(folds)
    ]
    labels = manifest.labels
    held = [set(labels[split.validation].tolist()) for split in splits]
    training = set(labels[split_data(manifest, protocol="default", seed=seed).train].tolist())
    assert sum(map(len, held)) == len(training)
    assert set.union(*held) == training
    assert max(map(len, held)) - min(map(len, held)) <= 1
    assert len({split.fingerprint for split in splits}) == folds


def test_another_validation_seed_moves_the_validation_classes_and_leaves_the_test_classes():
    manifest = open_data("synthetic?classes=40&images=2&size=8")
    one, other, same = (split_data(manifest, validation_seed=seed) for seed in (None, 1, 0))
    assert one.test.tolist() == other.test.tolist()
    assert one.validation.tolist() != other.validation.tolist()
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_a_tenth_of_the_training_classes_validates():
    manifest = manifest_of([3] * 40, [label >= 20 for label in range(40)])
    split = split_data(manifest, protocol="fixed-validation")
    assert len(split.validation) == 2 * 3
    assert len(split.test) == 60
    others = {split_data(manifest, seed=seed).fingerprint for seed in range(8)}
    assert len(others) > 4


def test_test_classes_do_not_move_with_the_protocol():
    manifest = manifest_of([2] * 30)
    tests = [split_data(manifest, protocol=protocol, seed=5).test.tolist() for protocol in PROTOCOLS]
    assert tests[0] == tests[1] == tests[2]
    assert len(tests[0]) == 30
    assert len(split_data(manifest, test_share=0.0).test) == 0


def test_known_draw_stays_the_same_on_every_machine():
    """The draw is part of published results: a changed order of classes must be noticed."""
    split = split_data(manifest_of([1] * 20), seed=7)
    assert split.validation.tolist() == [10, 14]
    assert split.test.tolist() == [1, 3, 6, 9, 11, 12, 13, 15, 16, 17]


@pytest.mark.parametrize(
    "options",
    [{"protocol": "fixed"}, {"protocol": "cross-validation", "folds": 99}, {"validation_share": 0.0},
     {"test_share": 1.0}, {"protocol": "cross-validation", "fold": 2, "folds": 2}],
)  # fmt: skip
def test_wrong_options_are_refused(options):
    with pytest.raises(UserError):
        split_data(manifest_of([2] * 12), **options)


def test_too_few_classes_are_refused():
    with pytest.raises(DataError, match="too few classes to train on"):
        split_data(manifest_of([2, 2]))


CLEAN = open_data("synthetic?classes=10&images=6&size=8")


@given(st.floats(0, 1), st.integers(0, 2**32), st.integers(12, 60))
def test_exactly_the_share_changes_and_stays_among_the_rows_classes(share, seed, count):
    rows = torch.arange(count)
    noisy = with_wrong_labels(CLEAN, rows, share, seed=seed)
    changed = noisy.labels != CLEAN.labels
    assert int(changed.sum()) == round(share * count)
    assert not changed[count:].any()
    assert set(noisy.labels[rows].tolist()) <= set(CLEAN.labels[rows].tolist())
    named = dict(zip(CLEAN.values("label"), CLEAN.values("class_name"), strict=True))
    assert [named[label] for label in noisy.values("label")] == noisy.values("class_name")
    assert noisy.read_bytes(3) == CLEAN.read_bytes(3)


def test_wrong_classes_are_drawn_evenly():
    counts = torch.zeros(10, 10)
    for seed in range(60):
        noisy = with_wrong_labels(CLEAN, torch.arange(60), 0.5, seed=seed)
        counts.index_put_((CLEAN.labels, noisy.labels), torch.tensor(1.0), accumulate=True)
    off = counts[~torch.eye(10, dtype=torch.bool)]
    assert off.sum() == 60 * 30
    assert float(off.min()) > 6  # 20 on average
    assert float(off.max()) < 40


def test_a_run_keeps_validation_and_test_clean():
    values = {"data": {"source": "synthetic?classes=10&images=6&size=8", "validation_share": 0.4}}
    clean = open_source(parse_spec(values), Machine())
    noisy = open_source(parse_spec({"data": values["data"] | {"wrong_labels": 0.3}}), Machine())
    changed = clean.manifest.labels != noisy.manifest.labels
    assert torch.equal(clean.split.train, noisy.split.train)
    assert int(changed[clean.split.train].sum()) == int(changed.sum()) == round(0.3 * len(clean.split.train))


def test_what_cannot_be_is_refused():
    with pytest.raises(UserError, match="two classes"):
        with_wrong_labels(CLEAN, torch.arange(6), 0.5)
