"""Scenes with a real Ray cluster on this machine; each runs in a process of its own (see test_ray.py)."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from similis.engine.outcomes import RankFailedError
from similis.engine.ray import WorkersLostError, connect
from similis.engine.ray import map as ray_map
from similis.engine.ray_train import train_on_ray
from tests.engine.ray_work import alone, counting, dies_once, joined_loss, slow_square, square, wrong


def small(folder: str) -> None:
    connect(cpus=2, store_bytes=100 * 2**20)
    assert ray_map(square, range(5), workers=2) == [0, 1, 4, 9, 16]
    raises(ValueError, "no square of -1", lambda: ray_map(square, [1, -1, 2]))
    assert ray_map(square, []) == []
    one, two = train_on_ray(joined_loss, 2, folder=Path(folder))
    assert one == two
    assert abs(one - alone()) < 1e-12
    assert not list(Path(folder).iterdir())  # nothing is left behind


def tournament(folder: Path) -> None:
    """Tasks of Ray leave the records of the local engine."""
    from similis.engine.executor import Executor
    from similis.study.tournament import run_tournament
    from tests.study.small import plan, without_cost

    made, done = plan(search={"trials": 1, "epochs": 1, "strategy": "random"}, repetitions=1), []
    here = run_tournament(made, folder / "here")
    there = run_tournament(made, folder / "there", executor=Executor(2, on_ray=True, on_finished=done.append))
    assert without_cost(there.path) == without_cost(here.path)
    assert len(done) == 4


def lost_workers(folder: str) -> None:
    connect(cpus=2, store_bytes=100 * 2**20)
    tournament(Path(folder) / "tournament")
    assert ray_map(dies_once, [(folder, n) for n in range(6)]) == [0, 1, 4, 9, 16, 25]
    calls = {n: len((Path(folder) / str(n)).read_text()) for n in range(6)}
    assert calls == {0: 1, 1: 2, 2: 1, 3: 2, 4: 1, 5: 2}  # only what was lost ran again
    begun = time.monotonic()
    assert train_on_ray(counting, 2, folder, 6, 3, folder=Path(folder)) == [[3, 6]] * 2  # from the third step on
    print(f"a gang of two with one killed worker took {time.monotonic() - begun:.1f} s")
    raises(RankFailedError, "has no idea", lambda: train_on_ray(wrong, 2, folder=Path(folder)))
    again = Path(folder) / "again"
    again.mkdir()
    lose = lambda: train_on_ray(counting, 2, str(again), 6, 3, folder=again, losses_allowed=0)  # noqa: E731
    raises(WorkersLostError, "lost 1 times", lose)


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
    remover = threading.Thread(target=remove_when_busy, args=(cluster, victim, Path(folder)), daemon=True)
    remover.start()
    found = ray_map(slow_square, work, retries=10)
    assert found == [n * n for n in range(24)], found
    calls = [len((Path(folder) / str(n)).read_text()) for n in range(24)]
    assert all(c >= 1 for c in calls)
    assert sum(calls) <= 24 + 3, calls  # at most what the lost node was doing ran again
    remover.join(300)
    # the cluster misses a node some heartbeats after it is gone
    wait_until(lambda: len([node for node in ray.nodes() if node["Alive"]]) == 2, 300, "the lost node counts as dead")
    ray.shutdown()
    cluster.shutdown()


def wait_until(condition, seconds: float, what: str) -> None:
    """Wait for a condition, up to a deadline."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not within {seconds:g} s: {what}"
        time.sleep(0.2)


def remove_when_busy(cluster, node, folder: Path) -> None:
    """Take a node away when a quarter of the work has begun."""
    while len(list(folder.iterdir())) < 6:
        time.sleep(0.1)
    cluster.remove_node(node, allow_graceful=False)


LONG_RUN = {
    "data": {"source": "synthetic?classes=12&images=6&size=16", "validation_share": 0.34},
    "model": {"backbone": "small_conv", "weights": None, "dim": 8, "image_size": 16},
    "objective": {"loss": "proxy_anchor"},
    "training": {"batch_size": 9, "per_class": 3, "checkpoint_steps": 1, "refit": False},
}


def killed_run(folder: str, kills: str, epochs: str, pause: str) -> None:
    """A run of two workers under kills, and the same on two processes of this machine without."""
    from similis.run.distributed import run_on_ranks
    from similis.run.machine import Machine
    from similis.run.spec import parse_spec, replace_values
    from tests.run.small import remains

    values, root = replace_values(LONG_RUN, {"training.epochs": int(epochs)}), Path(folder)
    (root / "run.json").write_text(json.dumps(values))
    words = ["train", str(root / "run.json"), "--runs", str(root / "ray"), "--workers", "2", "--no-pictures"]
    seen = under_kills(words, root / "ray", root, int(kills), float(pause))
    alone = run_on_ranks(parse_spec(values), Machine(root=root / "alone"), ranks=2)
    (found,) = (path for path in (root / "ray").glob("[!.]*") if (path / "result.json").exists())
    assert [(path / "address").read_text() for path in (root / "ray").glob("[!.]*")] == [alone.address]
    assert remains(found) == remains(alone.folder)  # weights, scores, every step once: to the bit
    assert "MAP@R %" in seen
    assert "step" in seen, "no progress came back to the display"


def killed_tournament(folder: str, kills: str, repetitions: str) -> None:
    """A tournament under kills, and the same by the local engine without."""
    from similis.study.report.page import write_report
    from similis.study.tournament import run_tournament
    from similis.study.tournament_folder import TournamentFolder
    from tests.study.small import plan, values, without_cost
    from tests.study.test_kill import no_step_twice

    root = Path(folder)
    longer = {
        "contestants": ["proxy_anchor", "contrastive", "triplet", "multi_similarity"],
        "repetitions": int(repetitions),
        "search": {"trials": 1, "epochs": 30, "startup": 1, "pruning": False},
    }
    made = values(**longer)
    made["terms"]["training"]["epochs"] = 80
    (root / "plan.yaml").write_text(yaml.safe_dump(made))
    words = ["tournament", "run", str(root / "plan.yaml"), "--folder", str(root / "ray"), "--ray", "--workers", "2"]
    seen = under_kills(words, root / "ray" / "runs", root, int(kills), pause=2.0)
    alone = run_tournament(plan(**{**longer, "terms": made["terms"]}), root / "alone")
    runs = [{path.parent.name for path in (root / at / "runs").glob("*/spec.json")} for at in ("ray", "alone")]
    print(f"{len(runs[0])} runs")
    assert runs[0] == runs[1]  # none lost, none more
    assert without_cost(root / "ray") == without_cost(alone.path)
    no_step_twice(root / "ray")
    ledgers = [sorted((root / at / "ledger.jsonl").read_text().splitlines()) for at in ("ray", "alone")]
    assert ledgers[0] == ledgers[1]  # every model looked once at the test split
    pages = [write_report(TournamentFolder(root / at), out=root / f"page-{at}", times=False) for at in ("ray", "alone")]
    for one, other in zip(*pages, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert "done  final-main" in seen


def killed_embedding(folder: str, images: str, kills: str) -> None:
    """A bulk embedding under kills, and the same by this process without."""
    import torch

    from benchmarks.embed import draw_archive
    from similis.data.open_data import open_data
    from similis.model.bulk_embedding import embed_data
    from similis.model.load import ModelChoice
    from tests.engine.kills import Town, kill_between_parts

    root, model = Path(folder), ModelChoice("small_conv", weights=None, size=32, device="cpu")
    data = draw_archive(root / "drawn.zip", int(images))
    words = ["embed", str(root / "drawn.zip"), str(root / "ray"), "--model", "small_conv", "--weights", "none"]
    words += ["--size", "32", "--part-size", "50", "--device", "cpu", "--ray"]
    begun = time.monotonic()
    town = Town(words, root, root / "screen.log")
    try:
        kill_between_parts(town, root / "ray", int(kills), random.Random(int(kills)))
        seconds = time.monotonic() - begun
    finally:
        town.close()
    assert town.drivers == 1 + town.killed["driver"], "a driver did not survive what it should have"
    torch.set_num_threads(1)  # as Ray's workers
    found, alone = (embed_data(data, root / at, model, part_size=50) for at in ("ray", "alone"))
    assert (found.embedded, alone.embedded) == (0, len(data))
    assert found.checksum == alone.checksum  # all ids and vectors, to the bit
    assert open_data(root / "ray").values("path") == data.values("path")  # every image once
    speeds = (
        f"{len(data) / seconds:.0f} images/s with them on three nodes, {len(data) / alone.seconds:.0f} in one process"
    )
    print(f"{sum(town.killed.values())} kills {town.killed} while {len(data):,} images were embedded; {speeds} without")


def under_kills(words: list[str], runs: Path, folder: Path, kills: int, pause: float) -> str:
    """A driver with these words while workers, nodes and drivers are killed; what it wrote on its screens."""
    from tests.engine.kills import Town, kill_often, report

    begun, log = time.monotonic(), folder / "screen.log"
    town = Town(words, runs, log)
    try:
        kill_often(town, kills, random.Random(kills), pause)
        report(town, time.monotonic() - begun)
    finally:
        town.close()
    assert sum(town.killed.values()) == kills
    assert town.drivers == 1 + town.killed["driver"], "a driver did not survive what it should have"
    return log.read_text(errors="replace")


def raises(kind: type[Exception], text: str, call) -> None:
    with pytest.raises(kind, match=text):
        call()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
    print("all as expected")
