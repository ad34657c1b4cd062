"""Checkpoints: everything that continuing a run needs, the last two of each stage."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from similis.engine.row_files import OwnRows, load_rows, save_rows, saved_names
from similis.training.data_parallel import sharded_keys, sharded_parameters, take_own_shards
from similis.training.files import DamagedError, damage_error
from similis.training.loop import Progress, Task
from similis.training.tensors import read_tensors, save_tensors
from similis.values import DataError

FORMAT = "similis-checkpoint-1"
logger = logging.getLogger(__name__)


class Checkpoint(NamedTuple):
    """A checkpoint as it was read: nothing of it is in a task yet."""

    path: Path
    tensors: dict[str, Tensor]
    progress: Progress
    notes: dict[str, Any]
    shards: Path | None = None  # folder of the rows that ranks wrote apart


def previous_checkpoint(path: Path) -> Path:
    """Where the checkpoint before the last one is kept."""
    return path.with_stem(f"{path.stem}-previous")


def save_checkpoint(
    path: Path, task: Task, progress: Progress, notes: Mapping[str, Any], *, contents: str = "", keep: bool = False
) -> None:
    """Everything that continuing needs: weights, loss, optimiser, average, tables, position, notes of the run.

    All ranks of a run call this, and rank 0 writes; of sharded proxies and their moments each rank writes its own rows,
    into a new folder, before the file that names it.

    ``contents`` names the run and the stage. With ``keep``, the file that is there now is sound and is kept beside it.
    """
    tensors = flatten_state("model", task.model.state_dict()) | flatten_state("loss", task.loss.state_dict())
    tensors |= flatten_state("table", task.tables)
    if task.average is not None:
        tensors |= flatten_state("average", task.average.state_dict())
    tensors |= flatten_state("scaler", task.scaler.state_dict())
    for number, state in task.optimiser.state_dict()["state"].items():
        tensors |= flatten_state(f"optimiser.{number}", state)
    described = {"format": FORMAT, "contents": contents, "progress": json.dumps(asdict(progress))}
    described["notes"] = json.dumps(notes)
    divided, others = sharded_keys(task.loss, task.optimiser, tensors), task.communicator
    if divided and others is not None:
        number = others.broadcast(torch.tensor(1 + max(shard_numbers(path), default=0)))
        described["shards"] = shard_folder(path, int(number)).relative_to(path.parent).as_posix()
        own = {key: OwnRows(tensors.pop(key), joint.first) for key, joint in divided.items()}
        save_rows(own, path.parent / described["shards"], others)
    if others is not None and others.rank:
        return
    save_tensors(path, tensors, described, previous=previous_checkpoint(path) if keep else None)
    for old in sorted(shard_numbers(path))[:-2]:  # those of this file and of the one before it
        shutil.rmtree(shard_folder(path, old), ignore_errors=True)


def shard_folder(path: Path, number: int) -> Path:
    """Where the rows of ranks are that belong to a checkpoint."""
    return path.with_name(f"{path.stem}-shards") / str(number)


def shard_numbers(path: Path) -> list[int]:
    """Numbers of the folders of rows beside a checkpoint, whole or not."""
    return [int(folder.name) for folder in shard_folder(path, 0).parent.glob("[0-9]*")]


def last_checkpoint(path: Path, contents: str = "") -> Checkpoint | None:
    """The last sound checkpoint: the one at this path, or else the one before it; None if there is neither."""
    for place in (path, previous_checkpoint(path)):
        if place.exists():
            try:
                return read_checkpoint(place, contents)
            except DamagedError as error:
                logger.warning("going back to the checkpoint before, or to the start: %s", error)
    return None


def read_checkpoint(path: Path, contents: str = "") -> Checkpoint:
    """A checkpoint, checked."""
    tensors, described = read_tensors(path, contents)
    if described.get("format") != FORMAT:
        raise DataError(
            f"{path} is {described.get('format')!r}, not {FORMAT!r}; it was written by another version: delete it"
        )
    shards = path.parent / described["shards"] if "shards" in described else None
    if shards is not None and not (shards / ".metadata").exists():
        raise damage_error(path, f"the rows in {shards} are not whole")
    progress, notes = Progress(**json.loads(described["progress"])), json.loads(described["notes"])
    return Checkpoint(path, tensors, progress, notes, shards)


def restore(task: Task, checkpoint: Checkpoint) -> None:
    """Put a checkpoint back into a task that was built from the same spec."""
    tensors = take_own_shards(checkpoint.tensors, sharded_keys(task.loss, task.optimiser, checkpoint.tensors))
    try:
        task.model.load_state_dict(nest_state("model", tensors))
        apart = set() if checkpoint.shards is None else saved_names(checkpoint.shards)
        own = {key: value for key, value in task.loss.state_dict().items() if f"loss/{key}" in apart}
        task.loss.load_state_dict(own | nest_state("loss", tensors))
        if task.average is not None:
            task.average.load_state_dict(nest_state("average", tensors))
        restore_optimiser(task.optimiser, nest_state("optimiser", tensors))
        if checkpoint.shards is not None:
            load_rows(row_targets(task, apart), checkpoint.shards)
        task.scaler.load_state_dict({key: value.item() for key, value in nest_state("scaler", tensors).items()})
    except (RuntimeError, LookupError) as error:
        raise damage_error(
            checkpoint.path, f"it does not fit the model and the loss as they are now: {error}"
        ) from error
    task.tables = nest_state("table", tensors)


def row_targets(task: Task, names: set[str]) -> dict[str, OwnRows]:
    """Where the rows of sharded proxies and of their moments belong in a task, by their names in a checkpoint."""
    every = [p for group in task.optimiser.param_groups for p in group["params"]]
    learned, sharded = dict(task.loss.named_parameters()), sharded_parameters(task.loss)
    firsts = {id(parameter): joint.first for parameter, joint in sharded.values()}
    found = {}
    for name in names:
        place, _, key = name.partition("/")
        own = learned[key] if place == "loss" else every[int(place.removeprefix("optimiser."))]
        if place != "loss" and key not in task.optimiser.state[own]:
            task.optimiser.state[own][key] = torch.empty_like(own)
        rows = own if place == "loss" else task.optimiser.state[own][key]
        found[name] = OwnRows(rows.detach(), firsts.get(id(own), 0))
    return found


def flatten_state(prefix: str, state: Mapping[str, Any]) -> dict[str, Tensor]:
    """A state with dotted keys; a dictionary inside (the extra state of a memory) is flattened too."""
    out: dict[str, Tensor] = {}
    for key, value in state.items():
        if isinstance(value, Mapping):
            out |= flatten_state(f"{prefix}/{key}", value)
        elif value is not None:
            out[f"{prefix}/{key}"] = torch.as_tensor(value)
    return out


def nest_state(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The state that :func:`flatten_state` made flat."""
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
            key: torch.empty_like(own if key != "step" else value.to(own.device)).copy_(value)
            for key, value in values.items()
        }
