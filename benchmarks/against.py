"""This tree beside another commit: steps of the losses, alternating between two processes.

``python -m benchmarks.against REVISION [--only peers] [--rounds 7] [--json FILE]``. Each process imports one of
the two trees and takes its turn when it is asked to, so that both see the same machine. A ratio above 1 is a step that
became faster, ``low`` and ``high`` are its 95 % interval over rounds; peak memory is that of a fresh process for each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TURN = 0.2  # seconds of a turn: short steps are repeated


def serve() -> None:
    """What a process does: make a step, repeat it, say how long one took or how much memory it needed."""
    import resource

    from benchmarks import loss_cases as cases

    step: Any = None
    for line in sys.stdin:
        order = json.loads(line)
        if "make" in order:
            step, before = cases.ours(*order["make"]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            step()
            print(json.dumps((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024), flush=True)
            continue
        begin = time.perf_counter()
        for _ in range(order["repeat"]):
            step()
        print(json.dumps((time.perf_counter() - begin) / order["repeat"]), flush=True)


class Tree:
    """A process that has imported one tree."""

    def __init__(self, root: Path) -> None:
        self.environment = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}", "OMP_NUM_THREADS": "1"}
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        words = [sys.executable, str(Path(__file__)), "--serve"]
        return subprocess.Popen(words, stdin=-1, stdout=-1, text=True, env=self.environment, cwd=ROOT)

    def ask(self, process: subprocess.Popen[str] | None = None, **order: Any) -> float:
        process = process or self.process
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(order), file=process.stdin, flush=True)
        return float(json.loads(process.stdout.readline()))

    def peak(self, case: list[Any]) -> float:
        """Megabytes by which the peak of a fresh process rises at the first step."""
        process = self.start()
        found = self.ask(process, make=case)
        process.kill()
        return found


def rows(only: str | None) -> dict[str, list[Any]]:
    """Name of a row -> what ``loss_cases.ours`` takes."""
    from benchmarks import loss_cases as cases

    peers = {
        f"peers: {label} {size}": [name, options, size, 128]
        for label, (name, options, _, _, most) in cases.PEERS.items()
        for size in sorted({min(size, most) for size in (128, 512, 2048)})
    }
    groups = (cases.ONE_PASS, cases.TWO_PASS, cases.OWN_LAW)
    limit = {f"limit: {label}": [*case, 8192, 512] for group in groups for label, case in group.items()}
    return {name: case for name, case in (peers | limit).items() if only is None or name.startswith(only)}


def measure(case: list[Any], old: Tree, new: Tree, rounds: int) -> dict[str, float]:
    """Median over rounds of old / new seconds with its interval, and the peak memory of both."""
    from benchmarks.rounds import interval

    for tree in (old, new):
        tree.ask(make=case)
    repeat = max(1, round(TURN / old.ask(repeat=1)))
    ratios = []
    for number in range(rounds):
        turns = {tree: tree.ask(repeat=repeat) for tree in ((old, new) if number % 2 else (new, old))}
        ratios.append(turns[old] / turns[new])
    peaks = [statistics.median(tree.peak(case) for _ in range(3)) for tree in (old, new)]
    low, high = interval(ratios)
    return {"speed": statistics.median(ratios), "low": low, "high": high, "old_mb": peaks[0], "new_mb": peaks[1]}


def main() -> None:
    """Measure row after row; the geometric means come last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", nargs="?")
    parser.add_argument("--only", help="rows whose names begin so: peers, limit, 'peers: smooth_ap'")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "-q", "--detach", place, given.revision], cwd=ROOT, check=True)
        try:
            old, new, found = Tree(place), Tree(ROOT), {}
            for name, case in rows(given.only).items():
                found[name] = measure(case, old, new, given.rounds)
                print(f"{name:40s}", *(f"{key} {value:8.3f}" for key, value in found[name].items()), flush=True)
                if given.json is not None:
                    given.json.write_text(json.dumps({"revision": given.revision, "rows": found}, indent=1))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", place], cwd=ROOT, check=True)
    for part in ("peers", "limit"):
        own = [row for name, row in found.items() if name.startswith(part)]
        if own:
            memory = statistics.geometric_mean(max(row["new_mb"], 1) / max(row["old_mb"], 1) for row in own)
            print(f"{part}: speed {statistics.geometric_mean(row['speed'] for row in own):.3f}, memory {memory:.3f}")


if __name__ == "__main__":
    main()
