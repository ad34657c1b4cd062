"""Defaults of a run that fit the machine and the data; what you ask for stays as you ask for it.

Nothing here is timed: the same command on the same machine and data gives the same specification, and so finds the
run that it has begun before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from similis.data.samplers.mined import GROUP
from similis.data.splits import validation_classes
from similis.engine.device import GIB, count_cores, total_memory
from similis.run.checks import Layout, fitting_layout
from similis.run.machine import Machine
from similis.run.prepared import Prepared
from similis.run.spec import RunSpec
from similis.values import UserError

ENOUGH_CLASSES, ENOUGH_IMAGES = 10, 200  # that can choose a number of epochs
SHARES = (0.1, 0.2, 0.3)  # of the training classes that validate
SIZES = (192, 160, 128)  # pixels of a side, where the network's own would take too long on a processor
BATCHES = (100, 50, 20)
MOST_LOADERS = 8
LEAST_CACHE, MOST_CACHE = 0.25, 2.0  # GiB of decoded images
FEW_IMAGES = 1000  # are loaded before loader processes have started
# Bytes of activations that a core works through in about five minutes: 9,000 images of 128 pixels in
# tf_efficientnet_lite0, which keeps 25 MiB of each
CORE_BYTES = 9_000 * 25 * 2**20
CORE_MEMORY = 1.25 * GIB  # that a run on a processor may take for each core, where a quarter of the memory is more
# Peak of a process on a processor, tf_efficientnet_lite0 at 128 pixels, batches of 50: 2.3 GB
BASE_MEMORY = 0.75 * GIB  # PyTorch, and the networks of two stages with their optimisers
STEP_FACTOR = 1.2  # of what a step keeps


def fit_defaults(run: Prepared, keys: Mapping[str, Any]) -> Prepared:
    """The run with validation classes, resolution and batch that fit, as far as they were not asked for.

    Args:
        run: with the defaults of the package; of its machine the device, cores and memory count, and not their load.
        keys: dotted keys of what was asked for.
    """
    run = fit_validation(run, keys)
    if learns_from_images(run.spec):
        on_cpu = run.machine.chosen.type == "cpu"
        if on_cpu and not {"model.image_size", "training.resolutions"} & keys.keys():
            run = fit_size(run)
        if "training.batch_size" not in keys:
            run = run.change({"training.batch_size": fit_size_of_batch(run)})
        if on_cpu and "evaluation.batch_size" not in keys:
            run = run.change({"evaluation.batch_size": BATCHES[-1]})  # a larger one is no quicker
    return fit_batch(run, keys)


def fit_comparison(run: Prepared, keys: Mapping[str, Any]) -> Prepared:
    """The run behind ``similis compare``: validation classes that can choose, and a batch that can be made."""
    return fit_batch(fit_validation(run, keys), keys)


def fit_validation(run: Prepared, keys: Mapping[str, Any]) -> Prepared:
    """The run with validation classes that can choose, unless their share was asked for."""
    return run if "data.validation_share" in keys else run.change({"data.validation_share": fit_share(run)})


def fit_share(run: Prepared) -> float:
    """The share of the training classes that validate: more than a tenth where that would be too few to choose."""
    data, labels, split = run.spec.data, run.source.manifest.labels, run.source.split
    training = torch.cat([split.train, split.validation])
    if data.protocol != "fixed-validation" or run.spec.training.select == "last":
        return data.validation_share
    seed = data.split_seed if data.validation_seed is None else data.validation_seed
    classes = torch.unique(labels[training]).numpy()
    for share in SHARES:
        chosen = validation_classes(classes, data.protocol, seed=seed, share=share, folds=0, fold=0)
        images = int(torch.isin(labels[training], torch.from_numpy(chosen)).sum())
        if len(chosen) >= ENOUGH_CLASSES and images >= ENOUGH_IMAGES:
            break
    return share


def fit_size(run: Prepared) -> Prepared:
    """The run with fewer pixels of a side than the network's own where training would take much longer than minutes."""
    own, kept = run.network.cost()
    passes = sum(step.epochs * len(step.rows) for step in run.steps)
    budget = CORE_BYTES * count_cores()
    smaller = [size for size in SIZES if size < own]
    if not smaller or passes * kept <= budget:
        return run
    size = next((size for size in smaller if passes * kept * (size / own) ** 2 <= budget), smaller[-1])
    fitted = run.change({"model.image_size": size})
    try:
        fitted.network.cost()
    except (UserError, RuntimeError, AssertionError):  # a network of windows takes few sizes
        return run
    return fitted


def fit_size_of_batch(run: Prepared) -> int:
    """Images of a batch whose step fits into the memory that a run may take."""
    budget = memory_budget(run.machine)
    return next((size for size in BATCHES if step_memory(run, size) <= budget), BATCHES[-1])


def step_memory(run: Prepared, batch: int) -> float:
    """Bytes of a process while it trains, without decoded images."""
    held = min(batch, run.spec.training.chunk or batch)
    return BASE_MEMORY + (STEP_FACTOR * held * run.network.cost()[1] if learns_from_images(run.spec) else 0)


def memory_budget(machine: Machine) -> float:
    """Bytes that a run may take: a part of the memory of a machine that does other work too, most of a card's."""
    total = total_memory(machine.chosen) * GIB
    return min(total / 4, count_cores() * CORE_MEMORY) if machine.chosen.type == "cpu" else 0.8 * total


def learns_from_images(spec: RunSpec) -> bool:
    """Whether a step goes through the network: not where its features are cached or given."""
    return not spec.model.keeps_backbone and spec.model.backbone != "identity"


def fit_machine(run: Prepared, *, loaders: int | None, cache_gb: float | None) -> Prepared:
    """The run with loader processes and memory for decoded images; they change no number.

    Args:
        run: with its device.
        loaders: processes asked for; None for as many as keep a card busy, or leave a processor most of its cores.
        cache_gb: memory asked for; None for what the training leaves of its budget.
    """
    cores, on_cpu = count_cores(), run.machine.chosen.type == "cpu"
    if loaders is None:
        few = len(run.manifest) < FEW_IMAGES
        loaders = 0 if few else min(cores // 4 if on_cpu else cores - 1, MOST_LOADERS)
    if cache_gb is None:
        host = memory_budget(Machine(device="cpu"))
        left = host - (step_memory(run, run.spec.training.batch_size) if on_cpu else BASE_MEMORY)
        cache_gb = min(max(left / GIB, LEAST_CACHE), MOST_CACHE)
    return replace(run, machine=replace(run.machine, workers=loaders, cache_bytes=int(cache_gb * GIB)))


def fit_batch(run: Prepared, keys: Mapping[str, Any]) -> Prepared:
    """A batch that the training images can make, as far as its size and its images of a class were not asked for."""
    t, sampler = run.spec.training, run.spec.sampler
    labels = run.source.manifest.labels[run.source.split.train]
    asked, layout = Layout(t.batch_size, t.per_class), None
    kept = {"keep_batch": "training.batch_size" in keys, "keep_class": "training.per_class" in keys}
    if sampler == "balanced":
        layout = fitting_layout(asked, labels, **kept)
    elif not kept["keep_batch"]:
        most = min(t.batch_size, len(labels))
        layout = asked._replace(batch_size=most - most % (GROUP if sampler == "mined" else t.views))
    if layout is None:
        return run
    return run.change({f"training.{key}": value for key, value in layout._asdict().items()})
