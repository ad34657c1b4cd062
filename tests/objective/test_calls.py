"""A step of a small batch goes through few files and few calls: what a reader with a debugger steps through."""

import sys
from pathlib import Path

import pytest
import torch

import similis

ROOT = str(Path(similis.__file__).parent)
MOST_FILES, MOST_CALLS = 9, 60
LABELS = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])


def calls_of_a_step(criterion):
    """File and name of every call of our code in one forward and backward pass, B = 8."""
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(0)).requires_grad_()
    criterion(x, LABELS).backward()
    calls = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            calls.append((frame.f_code.co_filename, frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        criterion(x, LABELS).backward()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(
    ("name", "size"), [("supcon", {}), ("proxy_anchor", {"num_classes": 4, "dim": 16}), ("triplet", {})]
)
def test_a_small_step_is_short(name, size):
    calls = calls_of_a_step(similis.loss(name, **size))
    files = {file for file, _ in calls}
    assert calls
    assert len(files) <= MOST_FILES, sorted(files)
    assert len(calls) <= MOST_CALLS, calls
    assert not any("tiled" in file for file in files)
