"""What the ranks of a group leave behind: their results, or the error that the user should read.

A launcher begins a failed rank again, which helps where a process was lost. An error of the function would only come
again, so its rank leaves it in the folder of the call and ends as if it had succeeded. The others then lose it, and
what the launcher begins again for them ends at once.
"""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from similis.values import Communicator, SimilisError


class RankFailedError(SimilisError, RuntimeError):
    """The function failed on a rank; the message has its traceback."""


class Call(NamedTuple):
    """What every rank is to do; ``folder`` is seen by all ranks and by the process that waits for them."""

    folder: Path
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    device: str

    @property
    def is_over(self) -> bool:
        """Whether a rank has failed in a way that would only come again."""
        return any(self.folder.glob("error-*.pickle"))


def answer(call: Call, communicator: Communicator) -> None:
    """Call the function as one rank and leave its result, or its error, in the folder."""
    try:
        name, value = "result", call.function(communicator, *call.arguments)
    except SimilisError as error:
        name, value = "error", error
    except Exception as error:
        if is_group_error(error):  # the reason is with another rank, or it was lost
            raise
        name, value = "error", RankFailedError(f"rank {communicator.rank} failed:\n{traceback.format_exc()}")
    place = call.folder / f"{name}-{communicator.rank}.pickle"
    beside = place.with_suffix(f".{os.getpid()}")
    beside.write_bytes(pickle.dumps(value))
    beside.replace(place)


def is_group_error(error: BaseException) -> bool:
    """Whether an error only says that the group broke.

    Example:
        >>> is_group_error(RuntimeError("gloo/transport: Connection closed")), is_group_error(ValueError("of my own"))
        (True, False)
    """
    import torch.distributed as dist

    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


def collect(call: Call, ranks: int) -> list[Any]:
    """The results in the order of ranks; the first error is raised."""
    for path in sorted(call.folder.glob("error-*.pickle")):
        raise pickle.loads(path.read_bytes())
    return [pickle.loads((call.folder / f"result-{rank}.pickle").read_bytes()) for rank in range(ranks)]
