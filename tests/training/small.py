"""A small task for the tests of the training room: a perceptron on generated vectors."""

import torch
from torch import nn

from similis.objective.loss import loss
from similis.training.loop import Task
from similis.training.optimisers import Rates, Schedule, build_optimiser, parameter_groups
from similis.values import Batch

CLASSES, FEATURES, DIM, BATCH, STEPS = 4, 6, 5, 8, 5


class Perceptron(nn.Module):
    """Backbone and head, with dropout between them."""

    def __init__(self, dropout: float = 0.3) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Dropout(dropout))
        self.head = nn.Linear(16, DIM)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, generator=generator) / 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(x))


def task(dropout: float = 0.3, **changes) -> Task:
    """ProxyAnchor on the perceptron, AdamW."""
    model, criterion = Perceptron(dropout), loss("proxy_anchor", num_classes=CLASSES, dim=DIM)
    rates = Rates("adamw", 1e-2, loss_multiplier=10.0)
    optimiser = build_optimiser(parameter_groups(model, model.head.parameters(), criterion, rates), rates)
    settings = {"schedule": Schedule("cosine", ramp_steps=3), "steps_per_epoch": STEPS, "total_steps": 20, "seed": 7}
    return Task(model=model, loss=criterion, optimiser=optimiser, **{**settings, **changes})


def batches(epoch: int, start: int) -> list[Batch]:
    """The batches of an epoch from one on; a pure function."""
    out = []
    for number in range(start, STEPS):
        generator = torch.Generator().manual_seed(1000 * epoch + number)
        labels = torch.arange(BATCH) % CLASSES
        centres = torch.eye(CLASSES, FEATURES)[labels]
        images = centres + 0.3 * torch.randn(BATCH, FEATURES, generator=generator)
        out.append(Batch(images, labels, torch.arange(BATCH) + 100 * number))
    return out
