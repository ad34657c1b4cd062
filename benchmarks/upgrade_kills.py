"""Kills while a collection moves: ``python -m benchmarks.upgrade_kills [--items 20000] [--kills 100]``.

A server with drawn photos is asked and written to, while upgrades carry its collection to another model and back. The
server or the upgrade is killed again and again. Every answer is compared with exact search in the space that it names,
and after each start every acknowledged write must be there. The counts go to ``results/upgrade-kills.json``.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import requests
import torch
from torch import Tensor

from benchmarks.rounds import write_json
from similis.data.open_data import open_data
from similis.model.bundle_files import STORE
from similis.model.collection_file import read_about
from similis.model.load import load, pretrained
from similis.serving.upgrade import upgrade_collection
from tests.data.pictures import picture
from tests.serving.running import DEADLINE, FORKING, KEY, Server

SIZES, CLASSES, QUERIES, HITS = (16, 24), 200, 20, 10
RECORD = Path("results/upgrade-kills.json")


def upgrade(folder: str, model: str, images: str) -> None:
    """An upgrade in a process of its own."""
    torch.set_num_threads(1)
    upgrade_collection(Path(folder), Path(model), file=Path(folder) / STORE, data=open_data(images))


class Space:
    """A model with the exact answers of the first items."""

    def __init__(self, folder: Path, ids: list[str], vectors: Tensor, asked: list[bytes]) -> None:
        self.folder, self.model = folder, load(folder, device="cpu")
        self.queries = self.model.encode(asked)
        near = (self.queries @ vectors.T).sort(dim=1, descending=True)
        rows, values = near.indices[:, :HITS].tolist(), near.values[:, :HITS].tolist()
        self.best = [
            [(ids[row], value) for row, value in zip(*each, strict=True)] for each in zip(rows, values, strict=True)
        ]

    def check(self, number: int, found: list[dict[str, Any]]) -> bool:
        """Whether the hits that are first items are the best ones in order, with their similarities."""
        own = [hit for hit in found if hit["id"].startswith("all/")]
        return all(abs(hit["similarity"] - value) < 1e-4
                   for hit, (_, value) in zip(own, self.best[number], strict=False))  # fmt: skip


class Client(threading.Thread):
    """Asks and writes until the server is gone; keeps what was acknowledged, what was wrong, and how long it took."""

    def __init__(self, server: Server, spaces: dict[str, Space], asked: list[bytes], first: int) -> None:
        super().__init__()
        self.server, self.spaces, self.asked, self.first = server, spaces, asked, first
        self.there, self.unsure, self.wrong = set[str](), set[str](), list[Any]()
        self.seconds, self.named, self.ending = list[float](), set[str](), threading.Event()

    def run(self) -> None:
        with requests.Session() as session:
            for count in range(100_000):
                try:
                    if self.ending.is_set():
                        return
                    self.ask(session, count % QUERIES)
                    if count % 5 == 0:
                        self.write(session, f"w{self.first + count}", self.first + count)
                except requests.RequestException:
                    return

    def ask(self, session: Any, number: int) -> None:
        """One search."""
        begun = time.perf_counter()
        files = {"file": ("f", self.asked[number])}
        answer = session.post(f"{self.server.address}/v1/search", files=files, data={"k": HITS}, timeout=DEADLINE)
        self.seconds.append(time.perf_counter() - begun)
        if answer.status_code != 200:
            self.wrong.append(answer.text)
            return
        told = answer.json()
        self.named.add(told["model"])
        if not self.spaces[told["model"]].check(number, told["hits"]):
            self.wrong.append((number, told["hits"][:2], self.spaces[told["model"]].best[number][:2]))

    def write(self, session: Any, name: str, seed: int) -> None:
        """One enrolment."""
        self.unsure.add(name)
        sent = [("file", ("f", picture(10**6 + seed, 20, 20))), ("ids", (None, name))]
        headers = {"Authorization": f"Bearer {KEY}"}
        answer = session.post(f"{self.server.address}/v1/items", files=sent, headers=headers, timeout=DEADLINE)
        if answer.status_code == 201:
            self.there.add(name)
        elif answer.status_code != 503:
            self.wrong.append(answer.text)
        self.unsure.discard(name)


def draw_photos(place: Path, items: int) -> Path:
    """A folder of class folders with small drawn photos."""
    for number in range(items):
        file = place / "all" / f"kind{number % CLASSES}" / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(number, 20, 20))
    return place


class Counts:
    """What happened so far."""

    def __init__(self) -> None:
        self.there, self.wrong, self.names = set[str](), list[Any](), set[str]()
        self.rest, self.under = list[float](), list[float]()
        self.killed, self.switches = {"server": 0, "upgrade": 0}, 0

    @property
    def kills(self) -> int:
        return sum(self.killed.values())

    def take(self, clients: list[Client]) -> None:
        """Stop clients, and keep what they saw."""
        for client in clients:
            client.ending.set()
            client.join(DEADLINE)
            self.there |= client.there
            self.wrong += client.wrong
            self.names |= client.named
            self.under += client.seconds


class Mover:
    """Upgrades one after the other, from one model to the other and back, in processes that can be killed."""

    def __init__(self, folder: Path, models: list[Path], images: Path, counts: Counts) -> None:
        self.folder, self.models, self.images, self.counts, self.process = folder, models, images, counts, None
        self.hashes = {model: load(model, device="cpu").model_hash for model in models}

    def keep_going(self) -> None:
        """Start the next upgrade where the last one has ended, or the same again where it was killed."""
        if self.process is not None and self.process.is_alive():
            return
        if read_about(self.folder / STORE)["model_hash"] == self.hashes[self.models[0]]:  # it is there
            self.counts.switches += 1
            self.models.reverse()
        given = (str(self.folder), str(self.models[0]), str(self.images))
        self.process: Any = FORKING.Process(target=upgrade, args=given)
        self.process.start()

    def kill(self) -> None:
        """Kill the upgrade."""
        self.process.kill()
        self.process.join()
        self.counts.killed["upgrade"] += 1


def build_spaces(place: Path, images: Path, asked: list[bytes]) -> tuple[Path, list[Path], dict[str, Space]]:
    """The bundle to serve, both models without a gallery (the first one last), and their exact answers by hash."""
    data, spaces, models = open_data(str(images)), {}, []
    ids = [f"all/{path}" for path in data.values("path")]
    for size in SIZES:
        model = pretrained("small_conv", weights=None, size=size, device="cpu")
        models.insert(0, model.save(place / f"plain{size}"))
        space = Space(models[0], ids, model.encode(data), asked)
        spaces[space.model.model_hash] = space
        if size == SIZES[0]:
            model.add(data, labels=data.values("class_name"), ids=ids)
            folder = model.save(place / "bundle")
    return folder, models, spaces


def disturb(server: Server, mover: Mover, counts: Counts, kills: int, chance: random.Random) -> bool:
    """Upgrades go on until the server is killed, or until there were kills enough; whether the server still runs."""
    until = time.monotonic() + chance.uniform(1, 12)
    while counts.kills < kills:
        mover.keep_going()
        if time.monotonic() < until:
            time.sleep(0.05)
        elif chance.random() < 0.5:
            mover.kill()
            until = time.monotonic() + chance.uniform(1, 12)
        else:
            server.stop(signal.SIGKILL)
            server.place.cleanup()
            counts.killed["server"] += 1
            return False
    return True


def kill_often(place: Path, items: int, kills: int, seed: int = 0) -> dict[str, Any]:
    """Serve, ask, write, upgrade and kill; what was counted."""
    images, chance, counts = draw_photos(place / "photos", items) / "all", random.Random(seed), Counts()
    asked = [picture(10**7 + number, 20, 20) for number in range(QUERIES)]
    folder, models, spaces = build_spaces(place, images, asked)
    mover, round_, runs = Mover(folder, models, images, counts), 0, False
    while counts.kills < kills:
        server = Server(folder, keep_images=True).__enter__()
        lost = counts.there - server.listed().keys()
        counts.wrong += [("lost", sorted(lost)[:3])] if lost else []
        clients = [Client(server, spaces, asked, 100_000 * (2 * round_ + number)) for number in range(2)]
        for client in clients:
            client.start()
        if round_ == 0:
            time.sleep(10)
            counts.rest = [one for client in clients for one in client.seconds]
        runs, round_ = disturb(server, mover, counts, kills, chance), round_ + 1
        counts.take(clients)
        print(json.dumps({**counts.killed, "switches": counts.switches, "writes": len(counts.there),
                          "answers": len(counts.under), "wrong": len(counts.wrong)}), flush=True)  # fmt: skip
    mover.process.join(DEADLINE)
    if runs:
        server.__exit__()
    p99 = [1000 * float(np.quantile(times, 0.99)) for times in (counts.rest, counts.under)]
    return {"items": items, "kills of the server": counts.killed["server"],
            "kills of the upgrade": counts.killed["upgrade"], "switches": counts.switches,
            "acknowledged writes": len(counts.there), "answers": len(counts.under), "wrong": len(counts.wrong),
            "first wrong": [str(each)[:300] for each in counts.wrong[:3]], "spaces": len(counts.names),
            "p99 at rest, ms": p99[0], "p99 while moving, ms": p99[1]}  # fmt: skip


def main() -> None:
    """Kill, and keep the counts."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--items", type=int, default=20_000)
    reader.add_argument("--kills", type=int, default=100)
    given = reader.parse_args()
    with tempfile.TemporaryDirectory() as place:
        row = kill_often(Path(place), given.items, given.kills)
    print(json.dumps(row))
    write_json(RECORD, "python -m benchmarks.upgrade_kills", {"kills": row})


if __name__ == "__main__":
    main()
