"""Where models come from: a finished run, a saved folder, or a published network as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from similis.model.bundle_files import ABOUT, holds_model, read_json, read_whole
from similis.model.finished import finished, trained_model
from similis.model.hub import SCHEME, open_download
from similis.model.model import Model
from similis.model.model_folder import read_model_folder
from similis.model.verification import read_threshold
from similis.networks.backbone import HANDED_OVER
from similis.networks.own_network import keep_network
from similis.run.machine import Machine
from similis.run.network import build_network
from similis.run.spec import ModelSpec
from similis.run.trained_on import read_trained_on
from similis.training.files import DamagedError
from similis.values import UserError


def load(path: str | Path, *, device: str = "auto", workers: int = 0, network: nn.Module | None = None) -> Model:
    """The model of a finished run, or one that :meth:`Model.save` wrote.

    Args:
        path: the folder of a run (``runs/photos-1``), of runs with a single finished one, or of a saved model;
            ``hf://owner/name`` or ``hf://owner/name@revision`` for a model on the Hugging Face Hub.
        device: that computes: ``auto``, ``cpu``, ``cuda``, ``mps``, ``xpu``, ...
        workers: processes that read the images of a data set.
        network: the module that the model was trained with, if it was your own; its weights do not matter.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     place = pretrained("small_conv", weights=None, size=16).save(f"{folder}/model")
        ...     load(place).dim
        256
    """
    if str(path).startswith(SCHEME):
        with open_download(str(path)) as copied:
            return load(copied, device=device, workers=workers, network=network)
    machine, folder = Machine(device=device, workers=workers), Path(path)
    if network is not None:
        keep_network(network, own_name(folder))
        try:
            return load(path, device=device, workers=workers)
        except DamagedError as error:
            why = " ".join(str(error.__cause__ or error).split())
            text = f"network= does not fit the weights in {folder} ({why}); pass the module of its training"
            raise UserError(text) from None
    if holds_model(folder):
        return read_whole(folder, lambda: load_folder(folder, machine))
    result = finished(folder)
    embedder, folder = trained_model(result, machine), result.folder
    model = Model(embedder, result.spec.model, name=result.address, machine=machine, folder=folder)
    model.chosen, model.trained_on = read_threshold(folder), read_trained_on(folder)
    return model


def own_name(folder: Path) -> str:
    """The name of the user's own network in a run or in a saved model."""
    spec = read_json(folder / ABOUT)["network"] if holds_model(folder) else finished(folder).spec.model.model_dump()
    if not str(spec["backbone"]).startswith(HANDED_OVER):
        raise UserError(f"{folder} was trained with {spec['backbone']}, which needs no code of yours; drop network=")
    return str(spec["backbone"]).removeprefix(HANDED_OVER)


def load_folder(folder: Path, machine: Machine) -> Model:
    """The model of a folder that :meth:`Model.save` wrote."""
    embedder, spec, name, held = read_model_folder(folder, machine)
    model = Model(embedder, spec, name=name, machine=machine)
    model.gallery.add(held.vectors, held.entries)
    model.chosen, model.trained_on = read_threshold(folder), read_trained_on(folder)
    return model


def pretrained(
    name: str,
    *,
    weights: str | Path | None = "pretrained",
    size: int | None = None,
    device: str = "auto",
    workers: int = 0,
    features: int | None = None,
) -> Model:
    """A pretrained network as published: its own features, pooling and preprocessing, without a head.

    It is what training has to beat, and often good enough.

    Args:
        name: any network of timm's, or one of ours (``googlenet``, ``bn_inception``, ``small_conv``).
        weights: ``pretrained`` for the published ones, the path of a file, or None for random ones.
        size: pixels of a side; None for the network's own.
        device: that computes.
        workers: processes that read the images of a data set.
        features: length of ready vectors, for the network ``identity``, which leaves them as they are.

    Example:
        >>> pretrained("test_vit", weights=None).dim
        64
    """
    machine = Machine(device=device, workers=workers)
    file = None if weights is None else str(weights)
    options: dict[str, int | float | str | bool] = {} if features is None else {"features": features}
    spec = ModelSpec(backbone=name, weights=file, dim=None, image_size=size, options=options)
    return Model(build_network(spec, machine, normalise=True, seed=0).eval(), spec, name=name, machine=machine)


@dataclass(frozen=True)
class ModelChoice:
    """A model by what a user calls it, which every process can open.

    Attributes:
        name: the folder of a run or of a saved model, its address on the Hub, or the name of a network.
        weights: of a network by name; see :func:`pretrained`, and ``none`` as a command line says it.
        size: pixels of a side, of a network by name.
        device: that computes.
        workers: processes that read the images of a data set.
    """

    name: str
    weights: str | None = "pretrained"
    size: int | None = None
    device: str = "auto"
    workers: int = 0

    @property
    def is_folder(self) -> bool:
        """Whether a folder is meant, even one that is not there, or a model on the Hub, and no name of a network."""
        return self.name.startswith(SCHEME) or Path(self.name).is_dir() or ("/" in self.name and ":" not in self.name)

    def open(self, features: int | None = None) -> Model:
        """The model; of the network ``identity`` for vectors of this length."""
        if self.is_folder:
            return load(self.name, device=self.device, workers=self.workers)
        return pretrained(
            self.name,
            weights=None if self.weights == "none" else self.weights,
            size=self.size,
            device=self.device,
            workers=self.workers,
            features=features if self.name == "identity" else None,
        )
