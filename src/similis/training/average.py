"""Exponential moving average of weights, for evaluation."""

from __future__ import annotations

import copy

import torch
from torch import nn


class MovingAverage(nn.Module):
    """A copy of a model whose floating point tensors follow it slowly: ``a <- decay a + (1 - decay) w``."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.model = copy.deepcopy(model).eval()
        for parameter in self.model.parameters():
            parameter.requires_grad_(False)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move towards the model; counters are copied."""
        for own, new in zip(self.model.state_dict().values(), model.state_dict().values(), strict=True):
            if own.is_floating_point():
                own.lerp_(new, 1 - self.decay)
            else:
                own.copy_(new)
