"""The network of a run: built once, copied for each use, and what an image costs in it."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from similis.data.content import cache_folder, read_cache, write_cache
from similis.networks.backbone import PRETRAINED, ZOO, backbones
from similis.networks.embedder import Embedder, build_embedder, input_at
from similis.registry import losses
from similis.run.address import NUMERICS, file_hash, installed_version, source_of_backbone
from similis.run.machine import Machine
from similis.run.spec import ModelSpec, RunSpec
from similis.run.warm_start import load_start, start_folder


@dataclass(frozen=True)
class Network:
    """The network that a specification describes, built on the host when it is first needed.

    Attributes:
        model: its part of the specification.
        normalise: whether embeddings are unit vectors.
        seed: of what has no weights.
    """

    model: ModelSpec
    normalise: bool
    seed: int

    @cached_property
    def built(self) -> Embedder:
        """The network as it starts; take a :meth:`copy` to train it."""
        m, start = self.model, start_folder(self.model.weights)
        model = build_embedder(
            backbone=m.backbone,
            weights=m.weights if start is None else None,
            pooling=m.pooled_by,
            dim=m.dim or 0,
            layer_norm=m.layer_norm,
            freeze_batch_norm=m.freeze_batch_norm,
            normalise=self.normalise,
            seed=self.seed,
            image_size=m.image_size,
            options=m.options,
        )
        if start is not None:
            load_start(model, start)
        if m.resize is not None and model.preprocessing is not None:
            model.backbone.preprocessing = replace(model.preprocessing, resize=m.resize)
        # quicker on most processors; torch's stub lacks this form
        return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def copy(self, device: torch.device) -> Embedder:
        """A network of its own on a device; drawn on the host, so its weights are the same on every device."""
        return copy.deepcopy(self.built).to(device)

    def resized(self, image_size: int | None, resize: int | None = None) -> Network:
        """The same network for images of another size; built anew only if its layers depend on the size.

        Args:
            image_size: pixels of a side; None for the network's own, which ``self`` must have.
            resize: short side before the crop; None for the network's own share.
        """
        other = replace(self, model=self.model.model_copy(update={"image_size": image_size, "resize": resize}))
        if "built" in self.__dict__:
            look = input_at(self.built, image_size)
            if look is not None:
                look = look if resize is None else replace(look, resize=resize)
                other.__dict__["built"] = self.built.with_preprocessing(look)
        return other

    def cost(self) -> tuple[int, int]:
        """Pixels of a side, and bytes of one image that a step keeps for its backward pass.

        Kept in the cache folder of the user, so that a run is found again without building its network.
        """
        file, size = cache_folder() / "networks" / f"{self.cost_key()}.json", str(self.model.image_size)
        kept = read_cache(file)
        if size not in kept:
            model = copy.deepcopy(self.built)
            kept[size] = [str(pixels_of(model) or 0), str(activation_bytes(model))]
            write_cache(file, kept)
        return int(kept[size][0]), int(kept[size][1])

    def cost_key(self) -> str:
        """Hash of everything but the resolution that decides the cost."""
        values = self.model.model_dump(mode="json", exclude={"weights", "image_size", "resize"})
        code = [
            source_of_backbone(self.model.backbone),
            NUMERICS,
            installed_version("torch"),
            installed_version("timm"),
        ]
        return hashlib.sha256(json.dumps([values, self.normalise, code], sort_keys=True).encode()).hexdigest()[:24]


def build_model(spec: RunSpec, machine: Machine) -> Embedder:
    """The network of a run as it starts, on the machine's device."""
    return build_network(spec.model, machine, normalise=normalises(spec), seed=spec.seed)


def build_network(model: ModelSpec, machine: Machine, *, normalise: bool, seed: int) -> Embedder:
    """The embedder of a model's part of a specification, on the machine's device."""
    return Network(model, normalise, seed).built.to(machine.chosen)


def normalises(spec: RunSpec) -> bool:
    """Whether embeddings are unit vectors: as the loss declares, and always behind a closed form."""
    return spec.model.is_closed_form or losses.get(spec.objective.loss).input != "raw"


def check_weights(model: ModelSpec) -> None:
    """Raise if the file of the weights is missing, or if published weights are neither cached nor within reach."""
    if model.weights not in (None, PRETRAINED):
        file_hash(str(model.weights), "weights", "pretrained, or none")
    if model.weights == PRETRAINED and model.backbone not in backbones:
        from similis.networks.backbones.timm_zoo import check_published

        check_published(model.backbone.removeprefix(f"{ZOO}:"))


def pixels_of(model: Embedder) -> int | None:
    """Pixels of a side that a model takes; None for vectors."""
    return None if model.preprocessing is None else model.preprocessing.size


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
