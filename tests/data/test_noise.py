"""Wrong labels: as many as asked for, never the own class, training rows only."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from similis.data.noise import with_wrong_labels
from similis.data.open_data import open_data
from similis.run.machine import Machine
from similis.run.parts import open_source
from similis.run.spec import parse_spec
from similis.values import UserError

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
