"""A finished run, read again: its result, and its model without the weights file it began with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from similis.model.bundle_files import ABOUT, holds_model, read_json
from similis.networks.embedder import Embedder
from similis.run.machine import Machine
from similis.run.network import build_network, normalises
from similis.run.result import RunResult, read_result
from similis.run.spec import ModelSpec
from similis.training.folder import RunFolder
from similis.training.tensors import load_model
from similis.values import Preprocessing, UserError

LOOK: TypeAdapter[Preprocessing | None] = TypeAdapter(Preprocessing | None)  # from plain values


def finished(path: Path) -> RunResult:
    """Read the result in a run folder; a folder without one raises an error that says what to do.

    Args:
        path: the folder of one run, ``runs/NAME-1``, or a folder of runs that holds a single finished one.
    """
    result = read_result(RunFolder(path))
    if result is not None:
        return result
    if (path / "spec.json").exists():
        raise UserError(f"the run in {path} is not finished; continue it with: similis train {path / 'spec.json'}")
    inside = sorted(p.parent.name for p in path.glob("*/result.json")) if path.is_dir() else []
    if len(inside) == 1:
        return finished(path / inside[0])
    if not path.is_dir():
        raise UserError(
            f"there is no folder {path}; give the folder of a finished run, for example runs/photos-1, "
            "or make one: similis train photos/"
        )
    hint = f"it holds the runs {', '.join(inside)}: name one of them" if inside else "`similis train` makes one"
    raise UserError(f"{path} is not the folder of a finished run (it has no result.json); {hint}")


def start_keys(path: Path) -> dict[str, Any]:
    """Dotted keys of a specification that goes on from a finished run or a saved model: its network and weights."""
    run = None if holds_model(path) else finished(path)
    spec = ModelSpec(**read_json(path / ABOUT)["network"]) if run is None else run.spec.model
    kept = spec.model_dump(mode="json", include={"backbone", "dim", "layer_norm", "freeze_batch_norm", "image_size",
                                                 "resize", "options"})  # fmt: skip
    values = {**kept, "pooling": spec.pooled_by, "weights": str(path if run is None else run.folder)}
    return {f"model.{key}": value for key, value in values.items()}


def trained_model(result: RunResult, machine: Machine | None = None) -> Embedder:
    """The embedder of a finished run, in evaluation mode.

    The run folder holds all weights, so neither the Hub nor the file of the beginning is asked again. What the
    images are prepared by is what the run used.

    Args:
        result: see :func:`finished`.
        machine: for the memory format.
    """
    file, contents = RunFolder(result.folder).model, f"{result.address}/model"
    network, normalise = result.spec.model, normalises(result.spec)
    look = LOOK.validate_python(result.facts["preprocessing"])
    return read_network(file, contents, network, machine or Machine(), normalise=normalise, look=look)


def read_network(
    file: Path,
    contents: str,
    spec: ModelSpec,
    machine: Machine,
    *,
    normalise: bool,
    look: Preprocessing | None,
) -> Embedder:
    """An embedder with the weights of a file, in evaluation mode.

    Args:
        file: of the weights.
        contents: what it says it holds.
        spec: of the network; the weights that it began with are not read.
        machine: device and memory format.
        normalise: whether embeddings are unit vectors.
        look: what is done to its images.
    """
    model = build_network(spec.model_copy(update={"weights": None}), machine, normalise=normalise, seed=0)
    load_model(model, file, contents)
    model.backbone.preprocessing = look
    return model.eval()
