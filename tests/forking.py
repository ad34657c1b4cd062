"""Processes forked from one that has imported what the tests start: each begins at its work, not with imports."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.process import BaseProcess

FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(["tests.serving.launch", "tests.multiprocess.pool", "tests.run.small", "torch._dynamo"])


def start(target: Callable[..., None], *args: object) -> BaseProcess:
    """A process that runs a function."""
    process = FORKING.Process(target=target, args=args)
    process.start()
    return process
