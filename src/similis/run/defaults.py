"""Defaults of a run that fit the machine and the data; what you ask for stays as you ask for it.

Nothing here is timed: the same command on the same machine and data gives the same specification, and so finds the
run that it has begun before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from similis.data.open_data import list_data
from similis.data.samplers.mined import GROUP
from similis.data.splits import validation_classes
from similis.engine.device import GIB, count_cores, total_memory
from similis.networks.backbone import PRETRAINED, ZOO, backbones
from similis.run.checks import BALANCED, Layout, fitting_layout
from similis.run.cost import activation_bytes
from similis.run.machine import Machine
from similis.run.parts import Source, build_network, normalises, open_source, resolve_sampler
from similis.run.protocol import training_steps
from similis.run.spec import ModelSpec, RunSpec, parse_spec, replace_values
from similis.run.untouched import pixels_of
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


def fit_defaults(spec: RunSpec, keys: Mapping[str, Any], machine: Machine) -> RunSpec:
    """The specification with validation classes, resolution and batch that fit, as far as they were not asked for.

    Args:
        spec: of the command, with the defaults of the package.
        keys: dotted keys of what was asked for.
        machine: its device, cores and memory count, and not what is in use of them.
    """
    list_data(spec.data.source, root=machine.data_root, allow_counts=spec.data.allow_counts)
    check_weights(spec.model)  # after what is quickly seen of the data, and before every photo is read
    spec = fit_validation(spec, keys, machine)
    if learns_from_images(spec):
        source = open_source(spec, machine)
        if machine.chosen.type == "cpu" and not {"model.image_size", "training.resolutions"} & keys.keys():
            spec = change(spec, {"model.image_size": fit_size(spec, source)})
        if "training.batch_size" not in keys:
            spec = change(spec, {"training.batch_size": fit_size_of_batch(spec, machine)})
        if machine.chosen.type == "cpu" and "evaluation.batch_size" not in keys:
            spec = change(spec, {"evaluation.batch_size": BATCHES[-1]})  # a larger one is no quicker
    return fit_batch(spec, keys, machine)


def fit_comparison(spec: RunSpec, keys: Mapping[str, Any], machine: Machine) -> RunSpec:
    """The specification of ``similis compare``: validation classes that can choose, and a batch that can be made."""
    return fit_batch(fit_validation(spec, keys, machine), keys, machine)


def fit_validation(spec: RunSpec, keys: Mapping[str, Any], machine: Machine) -> RunSpec:
    """The specification with validation classes that can choose, unless their share was asked for."""
    if "data.validation_share" in keys:
        return spec
    return change(spec, {"data.validation_share": fit_share(spec, open_source(spec, machine))})


def change(spec: RunSpec, changes: Mapping[str, Any]) -> RunSpec:
    """A specification with other values at dotted keys."""
    return parse_spec(replace_values(spec.model_dump(mode="json"), changes))


def fit_share(spec: RunSpec, source: Source) -> float:
    """The share of the training classes that validate: more than a tenth where that would be too few to choose."""
    data, labels = spec.data, source.manifest.labels
    training = torch.cat([source.split.train, source.split.validation])
    if data.protocol != "fixed-validation" or spec.training.select == "last":
        return data.validation_share
    seed = data.split_seed if data.validation_seed is None else data.validation_seed
    classes = torch.unique(labels[training]).numpy()
    for share in SHARES:
        chosen = validation_classes(classes, data.protocol, seed=seed, share=share, folds=0, fold=0)
        images = int(torch.isin(labels[training], torch.from_numpy(chosen)).sum())
        if len(chosen) >= ENOUGH_CLASSES and images >= ENOUGH_IMAGES:
            break
    return share


def fit_size(spec: RunSpec, source: Source) -> int | None:
    """Pixels of a side: the network's own (None), or fewer where training would take much longer than minutes."""
    own, kept = network_cost(spec)
    passes = sum(step.epochs * len(step.rows) for step in training_steps(spec, source.split))
    budget = CORE_BYTES * count_cores()
    smaller = [size for size in SIZES if size < own]
    if not smaller or passes * kept <= budget:
        return None
    size = next((size for size in smaller if passes * kept * (size / own) ** 2 <= budget), smaller[-1])
    try:
        network_cost(change(spec, {"model.image_size": size}))
    except (UserError, RuntimeError, AssertionError):  # a network of windows takes few sizes
        return None
    return size


def fit_size_of_batch(spec: RunSpec, machine: Machine) -> int:
    """Images of a batch whose step fits into the memory that a run may take."""
    return next((size for size in BATCHES if step_memory(spec, size) <= memory_budget(machine)), BATCHES[-1])


def network_cost(spec: RunSpec) -> tuple[int, int]:
    """Pixels of a side, and bytes of one image that a step keeps; of the network without its weights."""
    bare = spec.model.model_copy(update={"weights": None})
    model = build_network(bare, Machine(device="cpu"), normalise=normalises(spec), seed=0)
    return pixels_of(model) or 0, activation_bytes(model)


def step_memory(spec: RunSpec, batch: int) -> float:
    """Bytes of a process while it trains, without decoded images."""
    held = min(batch, spec.training.chunk or batch)
    return BASE_MEMORY + (STEP_FACTOR * held * network_cost(spec)[1] if learns_from_images(spec) else 0)


def memory_budget(machine: Machine) -> float:
    """Bytes that a run may take: a part of the memory of a machine that does other work too, most of a card's."""
    total = total_memory(machine.chosen) * GIB
    return min(total / 4, count_cores() * CORE_MEMORY) if machine.chosen.type == "cpu" else 0.8 * total


def learns_from_images(spec: RunSpec) -> bool:
    """Whether a step goes through the network: not where its features are cached or given."""
    return spec.model.trains == "all" and spec.model.backbone != "identity"


def fit_machine(
    machine: Machine, spec: RunSpec, images: int, *, loaders: int | None, cache_gb: float | None
) -> Machine:
    """The machine with loader processes and memory for decoded images; they change no number.

    Args:
        machine: with its device.
        spec: of the run.
        images: of the data set.
        loaders: processes asked for; None for as many as keep a card busy, or leave a processor most of its cores.
        cache_gb: memory asked for; None for what the training leaves of its budget.
    """
    cores, on_cpu = count_cores(), machine.chosen.type == "cpu"
    if loaders is None:
        loaders = 0 if images < FEW_IMAGES else min(cores // 4 if on_cpu else cores - 1, MOST_LOADERS)
    if cache_gb is None:
        host = memory_budget(Machine(device="cpu"))
        left = host - (step_memory(spec, spec.training.batch_size) if on_cpu else BASE_MEMORY)
        cache_gb = min(max(left / GIB, LEAST_CACHE), MOST_CACHE)
    return replace(machine, workers=loaders, cache_bytes=int(cache_gb * GIB))


def check_weights(model: ModelSpec) -> None:
    """Raise where published weights of a network of timm's cannot be had."""
    if model.weights == PRETRAINED and model.backbone not in backbones:
        from similis.networks.backbones.timm_zoo import check_published

        check_published(model.backbone.removeprefix(f"{ZOO}:"))


def fit_batch(spec: RunSpec, keys: Mapping[str, Any], machine: Machine) -> RunSpec:
    """A batch that the training images can make, as far as its size and its images of a class were not asked for."""
    source, t, sampler = open_source(spec, machine), spec.training, resolve_sampler(spec)
    labels = source.manifest.labels[source.split.train]
    asked, layout = Layout(t.batch_size, t.per_class), None
    kept = {"keep_batch": "training.batch_size" in keys, "keep_class": "training.per_class" in keys}
    if sampler in BALANCED:
        layout = fitting_layout(asked, labels, sampler, **kept)
    elif not kept["keep_batch"]:
        most = min(t.batch_size, len(labels))
        layout = asked._replace(batch_size=most - most % (GROUP if sampler == "mined" else t.views))
    if layout in (None, asked):
        return spec
    changes = {f"training.{key}": value for key, value in layout._asdict().items()}
    return parse_spec(replace_values(spec.model_dump(mode="json"), changes))
