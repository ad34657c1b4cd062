"""Minibatches: the same objectives on a few rows at a time, memory flat in the size of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from similis.sklearn.groups import Whole
from similis.sklearn.matrix import Array

FEWEST = 4  # rows of a class in a batch; with more classes than that allows, some are drawn for each batch


@dataclass(frozen=True)
class Plan:
    """Size of a batch, passes over the table, and the learning rate of Adam, which falls to 0 in a straight line."""

    size: int = 1024
    epochs: int = 20
    rate: float = 0.02


def row_batches(labels: Whole, draws: Array | None, plan: Plan, generator: np.random.Generator) -> Iterator[Whole]:
    """Row numbers of each batch, epoch after epoch.

    Every row once an epoch in a new order; by weight and with replacement where ``draws`` are given; a few rows of
    some classes where there are too many classes for a batch.

    Args:
        labels: class numbers 0 to C - 1, (n,).
        draws: probabilities (n,) or None.
        plan: sizes.
        generator: of all draws.
    """
    number = len(labels)
    steps = steps_of(number, plan)
    size = min(plan.size, number)
    classes = int(labels.max()) + 1
    order = np.argsort(labels, kind="stable") if classes * FEWEST > size else None
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=classes))])
    for _ in range(plan.epochs):
        turn = None if draws is not None or order is not None else generator.permutation(number)
        for step in range(steps):
            if order is not None:
                yield few_of_some(order, starts, size, generator)
            elif turn is None:
                yield generator.choice(number, size, p=draws)
            else:
                yield turn[step * size : (step + 1) * size]


def few_of_some(order: Whole, starts: Whole, size: int, generator: np.random.Generator) -> Whole:
    """Up to four rows of each of some classes."""
    classes = generator.permutation(len(starts) - 1)[: max(2, size // FEWEST)]
    parts = []
    for chosen in classes:
        own = order[starts[chosen] : starts[chosen + 1]]
        parts.append(own if len(own) <= FEWEST else generator.choice(own, FEWEST, replace=False))
    return np.concatenate(parts)


def steps_of(number: int, plan: Plan) -> int:
    """Batches of an epoch; the rest that does not fill one is left to the next order."""
    return max(1, number // min(plan.size, number))


def descend(
    parameters: list[nn.Parameter],
    backward: Callable[[Whole], float],
    batches: Iterator[Whole],
    plan: Plan,
    number: int,
) -> tuple[int, float]:
    """Adam over the batches; returns the steps taken and the mean value of the last epoch.

    Args:
        parameters: what is learned.
        backward: row numbers -> value; leaves gradients in the parameters.
        batches: row numbers.
        plan: sizes and rate.
        number: rows of the table.
    """
    total = plan.epochs * steps_of(number, plan)
    optimiser = torch.optim.Adam(parameters, lr=plan.rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1.0 - step / total)
    values: list[float] = []
    for rows in batches:
        values.append(backward(rows))
        optimiser.step()
        schedule.step()
    return len(values), float(np.mean(values[-steps_of(number, plan) :]))
