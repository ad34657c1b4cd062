"""kill -9 under writes: every acknowledged item is there, none twice, and the server starts again."""

import random
import signal
import threading
import time

import pytest
import requests

from tests.serving.running import DEADLINE, KEY, PHOTOS, Server, photo

WRITERS = 3


class Writer(threading.Thread):
    """Enrols and removes images, one after the other, until the server is gone; keeps what was acknowledged."""

    def __init__(self, server: Server, number: int, round_: int) -> None:
        super().__init__()
        self.server, self.number, self.round = server, number, round_
        self.there: set[str] = set()
        self.gone: set[str] = set()
        self.unsure: set[str] = set()

    def run(self) -> None:
        address, headers = self.server.address, {"Authorization": f"Bearer {KEY}"}
        with requests.Session() as session:
            for count in range(10_000):
                name = f"w{self.number}-{self.round}-{count}"
                self.unsure.add(name)
                try:
                    files = [("file", ("f", photo(count))), ("ids", (None, name)), ("label", (None, "written"))]
                    answer = session.post(f"{address}/v1/items", files=files, headers=headers, timeout=DEADLINE)
                    assert answer.status_code == 201, answer.text
                    self.there.add(name)
                    if count % 3 == 0:
                        self.there.remove(name)
                        gone = session.delete(
                            f"{address}/v1/items", params={"id": name}, headers=headers, timeout=DEADLINE
                        )
                        assert gone.status_code == 204
                        self.gone.add(name)
                    self.unsure.remove(name)
                except requests.RequestException:
                    return


def kill_often(folder, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    there, gone, unsure = set(PHOTOS), set(), set()
    for round_ in range(kills + 1):
        server = Server(folder)
        server.__enter__()
        listed = server.listed()
        assert there <= listed.keys()
        assert not gone & listed.keys()
        assert listed.keys() <= there | unsure
        there, unsure = set(listed), set()  # what was not acknowledged is now known
        best = server.form("/v1/search", {"file": PHOTOS["kind2/1.png"]}, k=1).json()["hits"][0]
        assert best["similarity"] == pytest.approx(1.0, abs=1e-5)
        if round_ == kills:
            server.__exit__()
            return
        writers = [Writer(server, number, round_) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        while not any(writer.there for writer in writers):  # each round acknowledges something
            assert any(writer.is_alive() for writer in writers), server.said()
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.5))
        server.stop(signal.SIGKILL)
        for writer in writers:
            writer.join(DEADLINE)
            there |= writer.there
            gone |= writer.gone
            unsure |= writer.unsure
        server.place.cleanup()


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(10))
def test_killed_two_hundred_times(folder, seed):
    """Ten collections, twenty kills each."""
    kill_often(folder, 20, seed)


def test_a_restart_gives_the_same_answers(folder):
    with Server(folder) as server:
        for number in range(5):
            server.enrol(photo(300 + number), f"later {number}", "later")
        server.enrol(photo(301), "later 0", "replaced")
        before = server.form("/v1/search", {"file": photo(302)}, k=40).json()["hits"]
        listed = server.listed()
    with Server(folder) as server:
        assert server.form("/v1/search", {"file": photo(302)}, k=40).json()["hits"] == before
        assert server.listed() == listed


def test_one_server_at_a_time(folder, capsys):
    from tests.cli.test_main import ended

    with Server(folder):
        assert ended(["serve", str(folder), "--port", "0"]) == 2
    assert "used by another server" in capsys.readouterr().err
