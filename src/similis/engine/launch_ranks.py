"""Ranks of one machine, started and watched by PyTorch's elastic launcher."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from similis.engine.outcomes import Call, answer, collect
from similis.engine.process_group import join_group
from similis.engine.process_pool import WorkersLostError, end_with_parent
from similis.values import UserError


def launch(
    function: Callable[..., Any],
    ranks: int,
    *arguments: Any,
    device: str = "cpu",
    restarts: int = 3,
) -> list[Any]:
    """``function(communicator, *arguments)`` in fresh processes of this machine; the results in the order of ranks.

    When a process is lost, all begin again, so the function must go on from its last checkpoint. An error of this
    package is raised here as it is and not tried again.

    Args:
        function: defined at the top of a module; its first argument is a communicator.
        ranks: number of processes.
        *arguments: the same for every process; it knows its rank.
        device: of the processes, by name; of several devices each process takes one.
        restarts: how often processes may be lost.
    """
    if ranks < 1:
        raise UserError(f"ranks={ranks} given; give 1 or more")
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    with tempfile.TemporaryDirectory(prefix="similis-ranks-") as folder, quiet_launcher():
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=ranks,
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint=str(Path(folder) / "rendezvous"),
            rdzv_configs={"store_type": "file"},  # processes of one machine need no open port
            max_restarts=restarts,
            local_addr="127.0.0.1",
        )
        call = Call(Path(folder), function, arguments, device)
        try:
            elastic_launch(config, work)(call)
        except ChildFailedError as error:
            if not call.is_over:
                rank, first = error.get_first_failure()
                raise WorkersLostError(
                    f"rank {rank} of {ranks} was lost (exit code {first.exitcode}) after {restarts} restarts; if it "
                    "needs more memory than the machine has, use fewer ranks; the last checkpoint is kept"
                ) from None
        except SignalException as error:
            raise KeyboardInterrupt if error.sigval == signal.SIGINT else SystemExit(128 + error.sigval) from None
        return collect(call, ranks)


@contextmanager
def quiet_launcher() -> Iterator[None]:
    """Silence the logs of the launcher and of DistributedDataParallel; the error that is raised says what happened."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    names = ("torch.distributed.elastic", "torch.multiprocessing.spawn")
    levels = {logger: logger.level for logger in map(logging.getLogger, names)}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


def work(call: Call) -> None:
    """What a process does: join the group and call the function."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all of a terminal; the launcher decides
    if call.is_over:
        return
    import torch

    torch.set_num_threads(1)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    with join_group(call.device, store=call.folder / f"store-{attempt}") as communicator:
        answer(call, communicator)
