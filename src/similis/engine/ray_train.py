"""Ranks on a Ray cluster, placed, connected and restarted by Ray Train."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from similis.engine.outcomes import Call, answer, collect
from similis.engine.process_group import TIMEOUT
from similis.engine.process_pool import WorkersLostError
from similis.engine.ray import Share, connect, enter, ray_library
from similis.values import UserError


def train_on_ray(
    function: Callable[..., Any],
    workers: int,
    *arguments: Any,
    folder: Path,
    share: Share | None = None,
    losses_allowed: int = 10,
    device: str = "cpu",
) -> list[Any]:
    """``function(communicator, *arguments)`` on workers that share a process group; results in the order of ranks.

    Ray Train reserves the resources of all workers at once. When a worker or its node is lost, it restarts all of them
    as soon as resources are free, so the function must resume from its last checkpoint. An error of this
    package is raised here unchanged and not retried.

    Args:
        function: its first argument is a communicator.
        workers: their number.
        *arguments: the same for every worker.
        folder: that all nodes see, for a folder of results while this call lasts.
        share: what one worker takes of the cluster.
        losses_allowed: how often workers may be lost.
        device: of the workers, by name; a worker sees those that its share gives it.
    """
    if workers < 1:
        raise UserError(f"workers={workers} given; give 1 or more")
    ray_library()
    connect()
    from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchConfig, TorchTrainer

    share = share or Share()
    name = f".ray-{uuid.uuid4().hex}"
    place = folder.absolute() / name
    place.mkdir(parents=True)
    call = Call(place, function, arguments, device)
    trainer = TorchTrainer(
        work,
        train_loop_config={"call": call, "home": str(Path.cwd())},
        torch_config=TorchConfig(backend=None if share.gpus else "gloo", timeout_s=int(TIMEOUT)),
        scaling_config=ScalingConfig(
            num_workers=workers, use_gpu=share.gpus > 0, resources_per_worker=share.bundle() or {"CPU": 0.001}
        ),
        run_config=RunConfig(
            name=name, storage_path=str(folder.absolute()), failure_config=FailureConfig(max_failures=losses_allowed)
        ),
    )
    try:
        trainer.fit()
        return collect(call, workers)
    except TrainingFailedError as error:
        if call.is_over:
            return collect(call, workers)
        raise WorkersLostError(
            f"workers were lost {losses_allowed + 1} times, at last: {str(error).strip().splitlines()[0]}; the last "
            "checkpoint is kept, run again"
        ) from None
    finally:
        shutil.rmtree(place, ignore_errors=True)


def work(config: dict[str, Any]) -> None:
    """What a worker does: Ray Train has added it to the group; call the function, in the driver's folder."""
    from similis.engine.collectives import Collectives
    from similis.engine.device import choose_device, use_device

    call: Call = config["call"]
    enter(config["home"])
    if call.is_over:
        return
    device = choose_device(call.device)
    use_device(device)
    answer(call, Collectives(device=device))
