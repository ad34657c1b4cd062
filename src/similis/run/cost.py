"""What a training will cost: memory by what a step keeps for its backward pass, time by a trial on a few images."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from similis.data.examples import ImageData
from similis.data.loader import Loader
from similis.data.splits import Split
from similis.data.transforms import policy_of
from similis.engine.device import peak_memory
from similis.model.embedder import Embedder
from similis.run.machine import Machine
from similis.run.parts import Source, build_loader, build_model
from similis.run.protocol import training_steps
from similis.run.spec import RunSpec
from similis.run.untouched import pixels_of, untouched_networks
from similis.training.allocator import keep_freed_memory
from similis.training.loop import AUTOCAST

STATES = 6  # copies of the weights that a run holds beyond those of the trial: AdamW twice, start and chosen ones
LATER = 2**28 - 2**26  # bytes of evaluation and pictures, which the trial does not do
TRIAL = 20  # images of a trial on the processor, where a larger batch is no quicker
T = TypeVar("T")


class ImageSeconds(NamedTuple):
    """Seconds of one image.

    Attributes:
        load: to read and augment it the first time.
        reload: to augment it again, and to read it again where the cache does not hold all images.
        step: of the forward and backward pass.
        embed: of the forward pass.
        untouched: of the forward passes of all untouched networks.
        untouched_loads: times that it is read for them.
        memory: bytes of the process that trains, by the peak of a whole step; 0 if not known.
    """

    load: float
    reload: float
    step: float
    embed: float
    untouched: float = 0.0
    untouched_loads: int = 0
    memory: float = 0.0


def activation_bytes(model: Embedder) -> int:
    """Bytes of one image that a network keeps for its backward pass, at its own resolution, on the processor.

    The same number on every call and every machine, so that defaults may follow from it.
    """
    kept: dict[int, int] = {}
    own = {value.untyped_storage().data_ptr() for value in model.state_dict().values()}

    def note(value: Tensor) -> Tensor:
        storage = value.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return value

    size = pixels_of(model) or 1
    with torch.autograd.graph.saved_tensors_hooks(note, lambda value: value):
        embeddings = model.train()(torch.zeros(2, 3, size, size))  # two: batch norm in training needs them
        del embeddings
    return sum(kept.values()) // 2


def time_images(spec: RunSpec, machine: Machine, source: Source) -> ImageSeconds:
    """Try the network on a few training images and say how long each part takes for one."""
    if machine.keep_memory:
        keep_freed_memory()  # as the run will, which is quicker
    t, model = spec.training, build_model(spec, machine)
    loader = build_loader(model, source, spec, machine)
    most = min(t.batch_size, len(source.split.train), t.chunk or t.batch_size)
    count = min(most, TRIAL) if machine.chosen.type == "cpu" else most
    rows = source.split.train[torch.linspace(0, len(source.split.train) - 1, count).long()]

    def load() -> Tensor:
        return next(loader.train(rows[None], policy=t.policy, seed=spec.seed, epoch=0, size=t.pixels_at(0))).images

    def step(images: Tensor) -> None:
        with torch.autocast(machine.chosen.type, dtype=AUTOCAST.get(t.precision), enabled=t.precision in AUTOCAST):
            embeddings = model.train()(images)
        embeddings.sum().backward()

    first, images = measure(load, machine.chosen)
    again = measure(load, machine.chosen)[0]
    whole = images[torch.arange(most, device=images.device) % count]
    measure(lambda: step(whole), machine.chosen)  # for its memory, and because the first is slower
    stepped, embedded = measure(lambda: step(images), machine.chosen)[0], time_embedding(model, images)
    peak, weights = peak_memory(machine.chosen), int(sum(each.nbytes for each in model.state_dict().values()))
    networks = untouched_networks(spec, machine) if spec.evaluation.untouched and len(source.split.test) else []
    untouched = sum(time_embedding(each, interpolate(images, pixels_of(each))) for each in networks)
    return ImageSeconds(
        load=first / count,
        reload=(again + (1 - cached_share(loader, spec, source)) * max(0.0, first - again)) / count,
        step=stepped / count,
        embed=embedded / count,
        untouched=untouched / count,
        untouched_loads=len(networks),
        memory=0.0 if peak is None else peak + STATES * weights + LATER,
    )


def cached_share(loader: Loader, spec: RunSpec, source: Source) -> float:
    """The share of the training images that the cache can hold, judged by those of the trial."""
    caches = loader.data.caches if isinstance(loader.data, ImageData) else {}
    cache = caches.get(policy_of(spec.training.policy).keep)
    return min(1.0, cache.capacity / len(source.split.train)) if cache else 0.0


def time_embedding(model: Embedder, images: Tensor) -> float:
    """Seconds of a forward pass in evaluation mode, the quicker of two."""
    with torch.inference_mode():
        return min(measure(lambda: model.eval()(images), images.device)[0] for _ in range(2))


def measure(work: Callable[[], T], device: torch.device) -> tuple[float, T]:
    """Seconds that some work takes on a device, and its result."""
    begun = time.perf_counter()
    result = work()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter() - begun, result


def estimate_seconds(spec: RunSpec, split: Split, each: ImageSeconds, *, loaders: int) -> dict[str, float]:
    """Seconds of every stage of a run, at most: a refit has all epochs, and patience stops nothing.

    Args:
        spec: of the run.
        split: rows for training, validation and test.
        each: seconds of one image.
        loaders: processes that load images; they share the loading.

    Example:
        >>> from similis.run.spec import parse_spec
        >>> spec = parse_spec({"data": {"source": "synthetic"}, "training": {"epochs": 3}})
        >>> split = Split("s", torch.arange(40), torch.arange(40, 60), torch.arange(60, 160), "")
        >>> estimate_seconds(spec, split, ImageSeconds(0.0, 0.0, 1.0, 0.1), loaders=0)
        {'select': 126.0, 'refit': 180.0, 'evaluation': 10.0}
    """
    load, reload = (value / max(1, loaders) for value in each[:2])
    found: dict[str, float] = {}
    for step in training_steps(spec, split):
        trained, judged = len(step.rows), len(step.judged_on)
        epoch = trained * (each.step + reload) + judged * (each.embed + reload)
        found[step.name] = step.epochs * epoch + (trained + judged) * (load - reload)
    tested = len(split.test) if spec.evaluation.test else 0
    own = each.embed + each.untouched + (1 + each.untouched_loads) * load
    return {**found, "evaluation": tested * own}


def format_duration(seconds: float) -> str:
    """A time in the unit that suits it.

    Example:
        >>> [format_duration(s) for s in (0.2, 40, 400, 9000)]
        ['1 s', '40 s', '7 min', '2.5 h']
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
