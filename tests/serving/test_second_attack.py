"""Requests that the server once took in silence, and names that it could not show, search or delete."""

import socket

import pytest

import similis
from similis.model.bundle import make_thumbnail
from similis.serving.collection import Collection
from similis.serving.forms import check_name
from similis.serving.limits import Limits, Refusal
from similis.serving.metrics import Metrics
from tests.cli.test_main import ended
from tests.serving.running import KEY, Server, photo

ODD_NAMES = ("no\u00a0break", "a\ttab", "zero\u200cwidth", "wide\u3000space")


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A server with names that folders may have and that no new item may get over HTTP."""
    model = similis.pretrained("small_conv", weights=None, size=16, device="cpu")
    model.add(
        [photo(n) for n in range(8)], labels=[*ODD_NAMES, "a", "a", "b", "b"], ids=[*ODD_NAMES, "1", "2", "3", "4"]
    )
    pictures = {name: make_thumbnail(photo(n)) for n, name in enumerate(ODD_NAMES)}
    folder = model.save(tmp_path_factory.mktemp("odd") / "bundle", thumbnails=pictures)
    with Server(folder) as running:
        yield running


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_is_there_is_shown_searched_and_deleted(odd, name):
    assert odd.ask("GET", "/v1/thumbnail", params={"id": name}).status_code == 200
    assert odd.form("/v1/search", id=name, k="1").json()["hits"][0]["id"] == name
    assert odd.form("/v1/search", id="1", label=name, k="1").json()["hits"][0]["label"] == name
    assert odd.ask("GET", "/v1/items", params={"label": name}).json()["items"] == [{"id": name, "label": name}]
    assert odd.ask("DELETE", "/v1/items", params={"id": name}, key=KEY).status_code == 204
    assert odd.ask("DELETE", "/v1/labels", params={"label": name}, key=KEY).status_code == 404  # gone with its item


@pytest.mark.parametrize("name", ["", " ", "\u3000", "\u200b", "\u202e", "a\tb", "a\nb", "a\x00b", "\ud800", "\x7f"])
def test_a_new_name_can_be_shown_and_typed(name):
    with pytest.raises(Refusal, match=r"give a name of more than spaces, without control characters|give 1 to 512"):
        check_name("label", name)
    for good in ("oat milk", "no\u00a0break", "zero\u200cwidth", "Größe", "牛乳"):
        assert check_name("label", good) == good


def test_two_files_with_one_id_are_refused_and_nothing_is_kept(odd):
    files = [("file", ("a.png", photo(50))), ("file", ("b.png", photo(51)))]
    answer = odd.ask("POST", "/v1/items", files=[*files, *[("ids", (None, "same"))] * 2], key=KEY)
    assert answer.status_code == 422
    assert "'same' more than once" in answer.json()["error"]
    answer = odd.ask("POST", "/v1/items", files=[*files[:1], ("label", (None, "  "))], key=KEY)
    assert answer.status_code == 422
    assert not [each for each in odd.ask("GET", "/v1/items").json()["items"] if each["id"] == "same"]


def test_a_request_with_two_hosts_is_refused(odd):
    host, port = odd.address.removeprefix("http://").rstrip("/").split(":")
    for hosts in (("evil.example", "127.0.0.1"), ("127.0.0.1", "evil.example"), ("127.0.0.1", "127.0.0.1")):
        with socket.create_connection((host, int(port)), timeout=20) as line:
            head = "".join(f"Host: {name}\r\n" for name in hosts)
            line.sendall(f"GET /v1/model HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
            assert line.makefile("rb").readline().split()[1] == b"400"


@pytest.mark.parametrize("key", ["short", "schlüssel-mit-umlaut-und-länge", "x" * 257, " spaces around the key "])
def test_a_key_that_no_request_could_send_ends_the_server_at_its_start(key, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SIMILIS_KEY", key)
    assert ended(["serve", str(tmp_path), "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert "SIMILIS_KEY has" in said
    assert key.strip() not in said


def test_a_label_that_vanishes_meanwhile_leaves_the_estimate_alive(tmp_path, monkeypatch):
    model = similis.pretrained("small_conv", weights=None, size=16, device="cpu")
    model.add([photo(n) for n in range(6)], labels=["a", "a", "a", "b", "b", "b"], ids=[str(n) for n in range(6)])
    held = Collection(model.save(tmp_path / "bundle"), tmp_path / "store.sqlite", Limits(), Metrics())
    try:
        estimate = held.model.limit_of_unknown

        def vanish(contents):
            raise ValueError("a label vanished")

        for expected, way in (("failed", vanish), ("current", estimate)):
            monkeypatch.setattr(held.model, "limit_of_unknown", way)
            held._changed.set()
            for _ in range(2000):
                if held.estimate == expected:
                    break
                held._closing.wait(0.01)
            assert held.estimate == expected
        assert held._watcher.is_alive()
    finally:
        held.close()


def test_readiness_shows_the_estimate(odd):
    for _ in range(2000):
        said = odd.ask("GET", "/ready").json()
        if said["unknown_threshold"] == "current":
            break
    assert said == {"status": "ready", "unknown_threshold": "current"}


def test_an_item_without_a_label_changes_no_answer_that_leaves_copies_out(tmp_path):
    model = similis.pretrained("small_conv", weights=None, size=16, device="cpu")
    model.add([photo(n) for n in range(12)], labels=[str(n % 3) for n in range(12)], ids=[f"i{n}" for n in range(12)])
    with Server(model.save(tmp_path / "bundle")) as running:
        ask = lambda: running.form("/v1/search", {"file": photo(4)}, k="1", copies="false").json()["answer"]  # noqa: E731
        before = ask()
        assert before["similarity"] < 0.9999
        assert running.ask("POST", "/v1/items", files=[("file", ("x.png", photo(777)))], key=KEY).status_code == 201
        after = ask()
    assert (after["label"], after["similarity"]) == (before["label"], pytest.approx(before["similarity"], abs=1e-5))


def test_vectors_need_labels_that_can_be_deleted(odd):
    item = {"model": odd.get("/v1/model").json()["model_hash"], "ids": ["v"], "vectors": [[1.0] * 256]}
    for label in ("", " ", "\u200b"):
        answer = odd.ask("POST", "/v1/items/vectors", json=item | {"labels": [label]}, key=KEY)
        assert answer.status_code == 422
    assert odd.ask("POST", "/v1/items/vectors", json=item | {"labels": [None]}, key=KEY).status_code == 201
