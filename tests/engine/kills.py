"""A real cluster of three Ray nodes on this machine, a driver process that works on it, and somebody who kills.

Killed are workers and drivers by SIGKILL, and nodes by SIGKILL of their raylet; a node is added again. A driver that is
gone is started again with the same words, as a job scheduler would do it. After each kill we wait until what it hit
makes its next step, and note how long that took.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

STORE = {"object_store_memory": 80 * 2**20}
QUICK = {  # Ray's own settings notice a lost node after 15 s
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}
LONGEST = 600.0  # seconds: a deadline for a busy machine, not an expectation


class Town:
    """The cluster, the driver and what happened to them."""

    def __init__(self, words: list[str], runs: Path, log: Path) -> None:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "include_dashboard": False, "_system_config": QUICK, **STORE},
        )
        self.nodes = [self.cluster.add_node(num_cpus=1, wait=False, **STORE) for _ in range(2)]
        self.cluster.wait_for_nodes()
        self.words = [*words, "--address", self.cluster.address]
        self.runs, self.log = runs, log
        self.killed = {"worker": 0, "node": 0, "driver": 0}
        self.recovery: dict[str, list[float]] = {"worker": [], "node": [], "driver": []}
        self.drivers = 0
        self.driver = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        self.drivers += 1
        code = "from similis.cli import main; main()"
        with self.log.open("ab") as out:
            return subprocess.Popen([sys.executable, "-c", code, *self.words], stdout=out, stderr=out)

    def tend(self) -> bool:
        """Start a driver that was lost again; whether all is done."""
        ended = self.driver.poll()
        if ended is not None and ended != 0:
            self.driver = self.start()
        return ended == 0

    def close(self) -> None:
        self.driver.kill()
        self.driver.wait()
        self.cluster.shutdown()

    def kill(self, kind: str, chance: random.Random) -> list[int]:
        """Kill one of its kind; the processes that must be gone before work can go on."""
        if kind == "driver":
            gone = [self.driver.pid, *workers()]
            self.driver.kill()
        elif kind == "worker":
            gone = [chance.choice(workers())]
            os.kill(gone[0], signal.SIGKILL)
        else:
            busy = [[pid for pid in workers() if parent_of(pid) == raylet_pid(node)] for node in self.nodes]
            number = chance.choice([n for n in range(2) if busy[n]] or [0, 1])  # rather one that is at work
            raylet, gone = self.nodes[number], busy[number]
            self.cluster.remove_node(raylet, allow_graceful=False)
            self.nodes[number] = self.cluster.add_node(num_cpus=1, wait=False, **STORE)
        self.killed[kind] += 1
        return gone


def workers() -> list[int]:
    """Processes of this cluster that compute at this moment."""
    return [pid for pid, name in processes() if name.startswith((b"ray::RayTrainWorker", b"ray::call_at"))]


def processes() -> Iterator[tuple[int, bytes]]:
    """Ray's workers that descend from this process."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            name = entry.read_bytes()
            if name.startswith(b"ray::") and descends(int(entry.parent.name)):
                yield int(entry.parent.name), name
        except OSError:
            continue


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/status").read_text().split("PPid:")[1].split()[0])
    except OSError:
        return 0


def descends(pid: int) -> bool:
    while pid > 1:
        pid = parent_of(pid)
        if pid == os.getpid():
            return True
    return False


def raylet_pid(node) -> int:
    (raylet,) = node.all_processes["raylet"]
    return raylet.process.pid


def holders(runs: Path) -> dict[Path, int]:
    """Run folders that are being written, and who writes there: the one who holds the lock."""
    found = {}
    for pid in workers():
        try:
            links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        found |= {Path(link).parent: pid for link in links if link.startswith(str(runs)) and link.endswith("/.lock")}
    return found


def steps_of(run: Path) -> int:
    try:
        return (run / "metrics.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0


def kill_often(town: Town, kills: int, chance: random.Random, pause: float) -> None:
    """Kill at random moments while the driver works; then let it end."""
    kinds = ["worker", "node", "driver"] * (kills // 3 + 1)
    for kind in chance.sample(kinds[:kills], kills):
        wait_for_work(town)
        wait(town, chance.uniform(0.0, pause))
        if kind != "driver":
            wait_for_work(town)
        before = {run: (pid, steps_of(run)) for run, pid in holders(town.runs).items()}
        begun = time.monotonic()
        gone = town.kill(kind, chance)
        together = gone and town.words[0] == "train"  # the others of a gang start again too
        hit = {run: was for run, was in before.items() if together or was[0] in gone}
        if hit and wait_for_steps(town, hit):
            town.recovery[kind].append(time.monotonic() - begun)
    until = time.monotonic() + 900
    while not town.tend():
        assert time.monotonic() < until, f"not done 15 minutes after the last kill:\n{town.log.read_text()[-3000:]}"
        time.sleep(0.1)


def kill_between_parts(town: Town, out: Path, kills: int, chance: random.Random) -> None:
    """Kill whenever a bulk embedding has written two parts more and somebody works on the next; then let it end."""
    kinds = (["worker", "node", "driver"] * (kills // 3 + 1))[:kills]
    for kind in chance.sample(kinds, kills):
        before, until = len(list(out.glob("part-*"))), time.monotonic() + LONGEST
        while len(list(out.glob("part-*"))) < before + 2 or not workers():
            wait(town, 0.02)
            assert time.monotonic() < until, f"no parts after {town.killed}:\n{town.log.read_text()[-3000:]}"
        wait(town, chance.uniform(0.0, 0.2))
        while not workers():
            wait(town, 0.02)
        town.kill(kind, chance)
    until = time.monotonic() + LONGEST
    while not town.tend():
        assert time.monotonic() < until, f"not done after the last kill:\n{town.log.read_text()[-3000:]}"
        time.sleep(0.1)


def wait(town: Town, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert not town.tend(), f"done before all kills: {town.killed}"
        time.sleep(0.02)


def wait_for_work(town: Town) -> None:
    """Until somebody writes in a run folder."""
    until = time.monotonic() + LONGEST
    while not holders(town.runs):
        assert not town.tend(), f"done before all kills: {town.killed}"
        assert time.monotonic() < until, f"nobody works:\n{town.log.read_text()[-3000:]}"
        time.sleep(0.05)


def wait_for_steps(town: Town, hit: dict[Path, tuple[int, int]]) -> bool:
    """Until all runs that were hit have a new writer and a step more, or are done; False if the tournament went on
    without them (a trial that was pruned)."""
    until = time.monotonic() + LONGEST
    left = dict(hit)
    while left:
        done, now = town.tend(), holders(town.runs)
        for run, (pid, steps) in list(left.items()):
            if (run / "result.json").exists() or (now.get(run, pid) != pid and steps_of(run) > steps):
                del left[run]
        if done:
            return False
        assert time.monotonic() < until, f"{left} did not go on:\n{town.log.read_text()[-3000:]}"
        time.sleep(0.05)
    return True


def report(town: Town, seconds: float) -> None:
    """What happened, in words for the log and the page of results."""
    total = sum(town.killed.values())
    print(f"{total} kills {town.killed}, {town.drivers} drivers, {seconds:.0f} s in all")
    for kind, found in town.recovery.items():
        if found:
            middle, longest = statistics.median(found), max(found)
            print(f"  {kind}: next step after {middle:.1f} s (median of {len(found)}), {longest:.1f} s at most")
