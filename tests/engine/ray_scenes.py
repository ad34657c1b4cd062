"""Scenes with a real Ray cluster on this machine; each runs in a process of its own (see test_ray.py)."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from similis.engine.ray import WorkersLostError, connect, gang
from similis.engine.ray import map as ray_map
from tests.engine.ray_work import alone, counting, dies_once, joined_loss, slow_square, square, wrong


def small(folder: str) -> None:
    connect(cpus=2, store_bytes=100 * 2**20)
    assert ray_map(square, range(5), workers=2) == [0, 1, 4, 9, 16]
    raises(ValueError, "no square of -1", lambda: ray_map(square, [1, -1, 2]))
    assert ray_map(square, []) == []
    one, two = gang(joined_loss, 2)
    assert one == two
    assert abs(one - alone()) < 1e-12


def lost_workers(folder: str) -> None:
    connect(cpus=2, store_bytes=100 * 2**20)
    assert ray_map(dies_once, [(folder, n) for n in range(6)]) == [0, 1, 4, 9, 16, 25]
    calls = {n: len((Path(folder) / str(n)).read_text()) for n in range(6)}
    assert calls == {0: 1, 1: 2, 2: 1, 3: 2, 4: 1, 5: 2}  # only what was lost ran again
    begun = time.monotonic()
    assert gang(counting, 2, folder, 6, 3) == [[3, 6], [3, 6]]  # went on from the third step
    print(f"a gang of two with one killed worker took {time.monotonic() - begun:.1f} s")
    raises(ValueError, "has no idea", lambda: gang(wrong, 2))
    again = Path(folder) / "again"
    again.mkdir()
    raises(WorkersLostError, "lost 1 times", lambda: gang(counting, 2, str(again), 6, 3, losses_allowed=0))


def lost_node(folder: str) -> None:
    import ray
    from ray.cluster_utils import Cluster

    store = {"object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **store})
    nodes = [cluster.add_node(num_cpus=1, **store) for _ in range(2)]
    cluster.wait_for_nodes()
    connect(cluster.address)
    work = [(folder, n) for n in range(24)]
    home = ray.get_runtime_context().get_node_id()  # the node that this process hangs on
    victim = next(node for node in nodes if node.node_id != home)
    threading.Thread(target=remove_when_busy, args=(cluster, victim, Path(folder)), daemon=True).start()
    found = ray_map(slow_square, work, retries=10)
    assert found == [n * n for n in range(24)], found
    calls = [len((Path(folder) / str(n)).read_text()) for n in range(24)]
    assert all(c >= 1 for c in calls)
    assert sum(calls) <= 24 + 3, calls  # at most what the lost node was doing ran again
    assert len([node for node in ray.nodes() if node["Alive"]]) == 2
    ray.shutdown()
    cluster.shutdown()


def remove_when_busy(cluster, node, folder: Path) -> None:
    """Take a node away when a quarter of the work has begun."""
    while len(list(folder.iterdir())) < 6:
        time.sleep(0.1)
    cluster.remove_node(node, allow_graceful=False)


def killed_run(folder: str) -> None:
    from similis.run.machine import Machine
    from similis.run.ranks import run_on_ray
    from similis.run.run import run
    from similis.run.spec import parse_spec

    spec = parse_spec({
        "data": {"source": "synthetic?classes=12&images=6&size=16", "validation_share": 0.34},
        "model": {"backbone": "small_conv", "weights": None, "dim": 8, "image_size": 16},
        "objective": {"loss": "multi_similarity"},
        "training": {"epochs": 30, "batch_size": 9, "per_class": 3, "checkpoint_steps": 1},
    })  # fmt: skip
    alone = run(spec, Machine(root=Path(folder) / "alone"))
    connect(cpus=2, store_bytes=100 * 2**20)
    root = Path(folder) / "ray"
    killed: list[int] = []
    threading.Thread(target=kill_when_training, args=(root, killed), daemon=True).start()
    result = run_on_ray(spec, Machine(root=root), workers=2)
    assert killed, "nobody was killed"
    assert [round(v, 2) for v in result.history] == [round(v, 2) for v in alone.history]
    print(f"killed {killed}")


def kill_when_training(root: Path, killed: list[int]) -> None:
    """Kill a worker as soon as the run has made ten steps."""
    while not killed:
        time.sleep(0.05)
        if sum(len(p.read_text().splitlines()) for p in root.glob("*/metrics.jsonl")) < 10:
            continue
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                name = entry.read_bytes()
            except OSError:
                continue
            parent = Path(entry.parent / "status").read_text()
            if name.startswith(b"ray::Member") and b"work" in name and of_this_cluster(parent):
                killed.append(int(entry.parent.name))
                os.kill(killed[-1], signal.SIGKILL)
                return


def of_this_cluster(status: str) -> bool:
    """Whether a process descends from this one."""
    while True:
        parent = int(status.split("PPid:")[1].split()[0])
        if parent == os.getpid():
            return True
        if parent <= 1:
            return False
        status = Path(f"/proc/{parent}/status").read_text()


def raises(kind: type[Exception], text: str, call) -> None:
    with pytest.raises(kind, match=text):
        call()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
    print("all as expected")
