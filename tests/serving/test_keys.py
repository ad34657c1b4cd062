"""Changes need the key, and other machines need one to be set: a table over all operations of OpenAPI."""

import base64

import pytest

from tests.cli.test_main import ended
from tests.serving.running import KEY, PHOTOS, Server, photo

CHANGES = {"DELETE /v1/items", "DELETE /v1/labels", "POST /v1/items", "POST /v1/items/vectors"}
BASIC = base64.b64encode(f"x:{KEY}".encode()).decode()
HEADERS = {
    "none": {},
    "wrong": {"Authorization": f"Bearer {KEY[:-1]}"},
    "longer": {"Authorization": f"Bearer {KEY}x"},
    "empty": {"Authorization": "Bearer "},
    "bare": {"Authorization": KEY},
    "basic": {"Authorization": f"Basic {BASIC}"},
    "token": {"Authorization": f"Token {KEY}"},
    "other header": {"X-API-Key": KEY},
    "cookie": {"Cookie": f"key={KEY}"},
    "not ascii": {"Authorization": "Bearer ÿÿ".encode("latin-1")},
}


def operations(server):
    """Method and path of each operation, and whether it says that it wants the key."""
    paths = server.get("/openapi.json").json()["paths"]
    return {f"{m.upper()} {path}": bool(each.get("security")) for path, own in paths.items() for m, each in own.items()}


def test_every_operation_that_changes_something_says_so(server):
    found = operations(server)
    assert {name for name, wants in found.items() if wants} == CHANGES
    assert len(found) == 16


@pytest.mark.parametrize("sent", HEADERS)
def test_changes_without_the_key_are_refused_and_change_nothing(server, sent, model):
    before = server.listed()
    for name in sorted(name for name, wants in operations(server).items() if wants):
        method, path = name.split()
        body = {
            "POST /v1/items": {"files": [("file", ("f", photo(1234))), ("label", (None, "x"))]},
            "POST /v1/items/vectors": {
                "json": {"model": model.model_hash, "ids": ["x"], "labels": ["x"], "vectors": [[1.0] * model.dim]}
            },
            "DELETE /v1/items": {"params": {"id": "kind0/0.png", "key": KEY}},
            "DELETE /v1/labels": {"params": {"label": "kind0", "key": KEY}},
        }[name]
        answer = server.ask(method, path, headers=HEADERS[sent], **body)
        assert answer.status_code == 401, name
        assert answer.headers["www-authenticate"] == "Bearer"
        assert KEY not in answer.text
    assert server.listed() == before
    assert server.form("/v1/search", {"file": photo(1234)}).json()["hits"][0]["similarity"] < 1.0


def test_the_scheme_may_have_any_case(server):
    answer = server.ask("DELETE", "/v1/items?id=nobody", headers={"Authorization": f"bearer {KEY}"})
    assert answer.status_code == 404


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "example.org", "::"])
def test_other_addresses_than_loopback_need_a_key(saved, host, capsys, monkeypatch):
    monkeypatch.delenv("SIMILIS_KEY", raising=False)
    assert ended(["serve", str(saved), "--host", host, "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert host in said
    assert "SIMILIS_KEY" in said


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::2]"])
def test_another_host_is_refused_on_loopback(server, host):
    answer = server.ask("GET", "/v1/model", headers={"Host": host})
    assert answer.status_code == 403
    assert "Host" in answer.json()["error"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000"])
def test_names_of_loopback_are_answered(server, host):
    assert server.ask("GET", "/health", headers={"Host": host}).status_code == 200


def test_without_a_key_one_is_made_and_is_in_the_address(folder):
    made = []
    for _ in range(2):
        with Server(folder, key="") as running:
            made.append(running.key)
            assert running.ask("DELETE", "/v1/labels?label=nobody", key=running.key).status_code == 404
            assert running.ask("DELETE", "/v1/labels?label=nobody", key=KEY).status_code == 401
            assert running.listed().keys() == PHOTOS.keys()
    assert len(made[0]) >= 32
    assert made[0] != made[1]
