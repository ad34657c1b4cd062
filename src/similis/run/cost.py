"""What a run will cost: memory and time by a measured step, and what a step keeps for its backward pass."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from similis.data.splits import Split
from similis.engine.device import peak_memory
from similis.run.parts import build_loader
from similis.run.prepared import Prepared
from similis.run.protocol import training_steps
from similis.run.spec import RunSpec
from similis.training.allocator import keep_freed_memory
from similis.training.loop import AUTOCAST

STATES = 6  # copies of the weights that a run holds beyond those of the trial: AdamW twice, start and chosen ones
LATER = 2**28 - 2**26  # bytes of evaluation and pictures, which the trial does not do
TRIAL = 20  # images of a trial on the processor, where a larger batch is no quicker


class Measured(NamedTuple):
    """A measured step.

    Attributes:
        trained: seconds to read an image and train on it.
        embedded: seconds to read an image and embed it.
        memory: bytes of the process that trains; 0 if not known.
    """

    trained: float
    embedded: float
    memory: float = 0.0


def measure_step(run: Prepared) -> Measured:
    """Try a copy of the network on a few training images."""
    spec, machine, source = run.spec, run.machine, run.source
    keep_freed_memory()  # as the run will, which is quicker
    t, device = spec.training, machine.chosen
    model = run.network.copy(device)
    loader = build_loader(model, source, spec, machine)
    most = min(t.batch_size, len(source.split.train), t.chunk or t.batch_size)
    count = min(most, TRIAL) if device.type == "cpu" else most
    rows = source.split.train[torch.linspace(0, len(source.split.train) - 1, count).long()]

    def step(images: Tensor) -> None:
        with torch.autocast(device.type, dtype=AUTOCAST.get(t.precision), enabled=t.precision in AUTOCAST):
            embeddings = model.train()(images)
        embeddings.sum().backward()

    moments = [time.perf_counter()]
    images = next(loader.train(rows[None], policy=t.policy, seed=spec.seed, epoch=0, size=t.pixels_at(0))).images
    moments.append(synchronised_time(device))
    step(images[torch.arange(most, device=images.device) % count])  # for its memory, and because the first is slower
    moments.append(synchronised_time(device))
    step(images)
    moments.append(synchronised_time(device))
    with torch.inference_mode():
        model.eval()(images)
    moments.append(synchronised_time(device))
    load, _, stepped, embedded = ((b - a) / count for a, b in pairwise(moments))
    load /= max(1, machine.workers)
    peak, weights = peak_memory(device), int(sum(each.nbytes for each in model.state_dict().values()))
    return Measured(stepped + load, embedded + load, 0.0 if peak is None else peak + STATES * weights + LATER)


def synchronised_time(device: torch.device) -> float:
    """The time, when a device has done what it was given."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter()


def estimate_seconds(spec: RunSpec, split: Split, each: Measured) -> float:
    """Seconds of a run at most: a refit has all epochs, patience stops nothing, and no image stays decoded.

    Example:
        >>> from similis.run.spec import parse_spec
        >>> spec = parse_spec({"data": {"source": "synthetic"}, "training": {"epochs": 3}})
        >>> split = Split("s", torch.arange(40), torch.arange(40, 60), torch.arange(60, 160), "")
        >>> estimate_seconds(spec, split, Measured(1.0, 0.1))  # 3 x (40 + 2), 3 x 60, and twice 10 of the test
        326.0
    """
    t, total = spec.training, 0.0
    for step in training_steps(spec, split):
        mined = math.ceil(step.epochs / t.mining.every_epochs) * len(step.rows) if t.sampler == "mined" else 0
        total += step.epochs * (len(step.rows) * each.trained + len(step.judged_on) * each.embedded)
        total += mined * each.embedded
    tested = len(split.test) if spec.evaluation.test else 0
    return total + (1 + spec.evaluation.untouched) * tested * each.embedded


def format_duration(seconds: float) -> str:
    """A time in the unit that suits it.

    Example:
        >>> [format_duration(s) for s in (0.2, 40, 400, 9000)]
        ['1 s', '40 s', '7 min', '2.5 h']
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
