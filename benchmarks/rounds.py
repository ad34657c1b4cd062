"""What every benchmark shares: contestants take turns in one process, ratios are medians, memory is a fresh process's.

Turns matter: on a shared machine the speed changes from minute to minute, so two things measured one after the other
cannot be compared. Here each round times every contestant once, in an order that turns by one place each round, and
a ratio is taken inside a round before the median over rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import scipy.stats
import torch


def take_turns(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """What each contestant returns in each round."""
    names = list(contestants)
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            found[name].append(contestants[name]())
    return found


def alternate(
    contestants: Mapping[str, Callable[[], object]],
    rounds: int = 7,
    warm: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each contestant in each round; ``warm`` turns before are not counted.

    ``time.process_time`` as the clock leaves out what other processes take, for contestants of one thread.
    """

    def spent(contestant: Callable[[], object]) -> float:
        gc.collect()
        begin = clock()
        contestant()
        return clock() - begin

    seconds = take_turns({name: partial(spent, each) for name, each in contestants.items()}, warm + rounds)
    return {name: each[warm:] for name, each in seconds.items()}


def median_ratio(seconds: Mapping[str, Sequence[float]], ours: str, theirs: str) -> float:
    """Median over rounds of ours / theirs, each ratio taken inside its round."""
    return statistics.median(a / b for a, b in zip(seconds[ours], seconds[theirs], strict=True))


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean ratio over rounds: Student's, of logarithms. Nothing is known of a single round.

    Example:
        >>> [round(end, 2) for end in interval([1.0, 2.0, 4.0])]
        [0.36, 11.19]
    """
    logs = [math.log(ratio) for ratio in ratios]
    if len(logs) < 2:
        return 0.0, math.inf
    middle, wide = statistics.fmean(logs), statistics.stdev(logs) / len(logs) ** 0.5
    reach = float(scipy.stats.t.ppf(0.975, len(logs) - 1)) * wide
    return math.exp(middle - reach), math.exp(middle + reach)


def ratio_interval(seconds: Mapping[str, Sequence[float]], ours: str, theirs: str) -> tuple[float, float]:
    """95 % interval of ours / theirs, each ratio taken inside its round."""
    return interval([a / b for a, b in zip(seconds[ours], seconds[theirs], strict=True)])


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)


def peak_memory(target: str, *arguments: object) -> int:
    """Bytes that a module function adds to the peak memory of a fresh process.

    ``target`` is ``package.module:function``; it is called with ``arguments`` (JSON values). The function may
    return a callable: then what went before (imports, inputs) is the base, and only the callable's rise counts.
    """
    code = _PEAK.format(target=target, arguments=json.dumps(arguments))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{target} failed in its own process:\n{done.stderr}")
    return int(done.stdout.split()[-1])


# The high-water mark of a Linux process can be set back to its present size, so that only the rise is read.
_PEAK = """
import importlib, json
def mark():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM")) * 1024
def present():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmRSS")) * 1024
module, _, name = "{target}".partition(":")
function = getattr(importlib.import_module(module), name)
arguments = json.loads({arguments!r})
def set_back():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
set_back()
base = present()
work = function(*arguments)
if callable(work):
    set_back()
    base = present()
    kept = work()
print(max(0, mark() - base))
"""


def arguments(description: str, rows: Sequence[str], more: Mapping[str, Any] | None = None) -> argparse.Namespace:
    """The options that every benchmark has, ``--only ROW``, ``--rounds``, ``--json FILE``, and ``more`` of its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", choices=rows, default=None, help="measure this row alone")
    parser.add_argument("--rounds", type=int, default=7, help="how often each contestant takes its turn")
    parser.add_argument("--json", type=Path, default=None, help="also write the figures to this file")
    for flag, settings in (more or {}).items():
        parser.add_argument(flag, **settings)
    return parser.parse_args()


def known_rows(path: Path | None) -> dict[str, Any]:
    """The rows of an earlier call, for the record grows from call to call."""
    return dict(json.loads(path.read_text())["figures"]) if path is not None and path.exists() else {}


def measure_rows(
    module: str, asked: argparse.Namespace, rows: Iterable[str], measure: Callable[[str], Any], again: bool = True
) -> dict[str, Any]:
    """The rows of the record and those that are asked for, written one by one; ``again``: also those that it has."""
    found = known_rows(asked.json)
    for name in [asked.only] if asked.only else rows:
        if again or name not in found:
            found[name] = measure(name)
            print(name, found[name], file=sys.stderr, flush=True)
            write_json(asked.json, f"python -m benchmarks.{module}", found)
    return found


def write_json(path: Path | None, command: str, figures: Any) -> None:
    """The figures with the machine they were taken on."""
    if path is None:
        return
    machine = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }
    path.write_text(json.dumps({"command": command, "machine": machine, "figures": figures}, indent=2) + "\n")
