"""The device of a machine without a card, whichever build of PyTorch it has."""

import pytest
import torch

from similis.engine.device import choose_device, peak_memory
from similis.values import UserError


def test_a_build_for_cuda_without_a_card_computes_on_the_processor(monkeypatch):
    def fail():
        raise RuntimeError("Cannot access accelerator device when none is available.")

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    for named in (fail, lambda: torch.device("cuda")):  # as PyTorch 2.6 and 2.15 do
        monkeypatch.setattr(torch.accelerator, "current_accelerator", named)
        assert choose_device("auto") == torch.device("cpu")
        with pytest.raises(UserError, match="available: cpu, or auto"):
            choose_device("abacus")


def test_the_peak_is_at_least_what_is_held():
    before = peak_memory(torch.device("cpu"))
    held = torch.ones(2**24)
    assert peak_memory(torch.device("cpu")) >= max(before, 4 * len(held))
