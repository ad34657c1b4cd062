"""Checkpoints: one safetensors file each, written beside its place and then moved there.

A reader sees the old file or the new one, never a half; nothing in it is executed on loading.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from similis.training.division import divided_keys, made_whole, own_parts
from similis.training.loop import Progress, Task
from similis.values import DataError

FORMAT = "similis-checkpoint-1"


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file atomically: to a neighbour, flushed to disk, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    save_file(
        {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}, beside, dict(metadata)
    )
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    beside.replace(path)


def save_checkpoint(path: Path, task: Task, progress: Progress, notes: Mapping[str, Any]) -> None:
    """Everything that continuing needs: weights, loss, optimiser, average, tables, position, notes of the run.

    Where processes share the run, every one of them calls this, and the first one writes: class vectors that are
    divided over them are written whole.
    """
    tensors = flat("model", task.model.state_dict()) | flat("loss", task.loss.state_dict())
    tensors |= flat("table", task.tables)
    if task.average is not None:
        tensors |= flat("average", task.average.state_dict())
    for number, state in task.optimiser.state_dict()["state"].items():
        tensors |= flat(f"optimiser.{number}", state)
    tensors = made_whole(tensors, divided_keys(task.loss, task.optimiser, tensors))
    if task.communicator is not None and task.communicator.rank:
        return
    described = {"format": FORMAT, "progress": json.dumps(asdict(progress)), "notes": json.dumps(notes)}
    save_tensors(path, tensors, described)


def load_checkpoint(path: Path, task: Task) -> tuple[Progress, dict[str, Any]]:
    """Put a checkpoint back into a task that was built from the same spec."""
    tensors, described = read_tensors(path)
    if described.get("format") != FORMAT:
        raise DataError(f"{path} is {described.get('format')!r}, not {FORMAT!r}; it was written by another version")
    tensors = own_parts(tensors, divided_keys(task.loss, task.optimiser, tensors))
    task.model.load_state_dict(nested("model", tensors))
    task.loss.load_state_dict(nested("loss", tensors))
    if task.average is not None:
        task.average.load_state_dict(nested("average", tensors))
    task.tables = nested("table", tensors)
    restore_optimiser(task.optimiser, nested("optimiser", tensors))
    return Progress(**json.loads(described["progress"])), json.loads(described["notes"])


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file."""
    with safe_open(path, framework="pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118


def flat(prefix: str, state: Mapping[str, Any]) -> dict[str, Tensor]:
    """A state with dotted keys; a dictionary inside (the extra state of a memory) is flattened too."""
    out: dict[str, Tensor] = {}
    for key, value in state.items():
        if isinstance(value, Mapping):
            out |= flat(f"{prefix}/{key}", value)
        elif isinstance(value, Tensor):
            out[f"{prefix}/{key}"] = value
        elif value is not None:
            out[f"{prefix}/{key}"] = torch.as_tensor(value)
    return out


def nested(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The state that :func:`flat` made flat."""
    out: dict[str, Any] = {}
    for name, value in tensors.items():
        head, _, rest = name.partition("/")
        if head != prefix and not head.startswith(f"{prefix}."):
            continue
        keys = ([head[len(prefix) + 1 :]] if head != prefix else []) + rest.split("/")
        place = out
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = value
    return out


def restore_optimiser(optimiser: torch.optim.Optimizer, state: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Moments in the memory layout of their parameters, so that a resumed step is the same to the bit."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    for number, values in state.items():
        own = parameters[int(number)]
        optimiser.state[own] = {
            key: torch.empty_like(own).copy_(value) if value.shape == own.shape and value.ndim else value.clone()
            for key, value in values.items()
        }
