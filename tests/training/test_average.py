"""Moving average: floating point values move slowly, counters are copied, no gradient is kept."""

import torch
from torch import nn

from similis.training.optimisers import MovingAverage


def test_average_and_counters():
    model = nn.BatchNorm1d(2)
    average = MovingAverage(model, decay=0.75)
    with torch.no_grad():
        model.weight.fill_(5.0)
        model.num_batches_tracked.fill_(9)
    average.update(model)
    assert average.model.weight.tolist() == [2.0, 2.0]
    assert int(average.model.num_batches_tracked) == 9
    assert not any(p.requires_grad for p in average.parameters())
