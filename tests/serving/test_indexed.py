"""A server over an index: the answers of the model, no change, and its files read only when that is asked for."""

from contextlib import nullcontext

import pytest
import torch

from similis.model.index_folder import load_index, save_index
from similis.retrieval.index import build_index
from similis.serving.collection import Collection
from similis.serving.limits import Limits
from similis.serving.metrics import Metrics
from similis.values import DataError
from tests.serving.running import KEY, PHOTOS, Server, photo


@pytest.fixture(scope="module")
def place(model, tmp_path_factory):
    held = model.gallery.contents()
    labels = [None if row == 3 else entry.label for row, entry in enumerate(held.entries)]
    index = build_index(held.vectors, list(PHOTOS), labels, kind="int8", effort=64, model_hash=model.model_hash)
    return save_index(index, tmp_path_factory.mktemp("indexed") / "index")


@pytest.fixture(scope="module")
def server(saved, place):
    with Server(saved, index=place) as running:
        yield running


def test_answers_are_those_of_the_model_with_the_index(server, model, place):
    index = load_index(place, model_hash=model.model_hash)
    for label in (None, "kind2"):
        answer = server.form("/v1/search", {"file": photo(77)}, k=5, **({"label": label} if label else {})).json()
        expected = model.search(photo(77), 5, index=index, label=label)
        assert [hit["id"] for hit in answer["hits"]] == [hit.id for hit in expected]
        assert [hit["similarity"] for hit in answer["hits"]] == pytest.approx([hit.similarity for hit in expected])
    name = list(PHOTOS)[3]  # the item without a label does not vote
    answer = server.form("/v1/search", id=name, k=2).json()
    assert answer["hits"][0]["id"] == name
    assert answer["answer"]["nearest"] in {"kind0", "kind1", "kind2", "kind3"}
    assert answer["answer"]["similarity"] < 0.9999
    vector = model.gallery.contents().vectors[5]
    body = vector.numpy().astype("<f4").tobytes()
    assert server.ask("POST", "/v1/search/vector?k=1", data=body).json()["hits"][0]["id"] == list(PHOTOS)[5]
    assert server.form("/v1/classify", {"file": PHOTOS["kind1/1.png"]}).json()["label"] == "kind1"


def test_it_is_listed_and_takes_no_change(server):
    told = server.get("/v1/model").json()
    assert (told["items"], told["writable"]) == (len(PHOTOS), False)
    assert {each["label"]: each["count"] for each in told["labels"]} == {"kind0": 5, "kind1": 6, "kind2": 6, "kind3": 6}
    assert list(server.listed()) == list(PHOTOS)
    assert [each["id"] for each in server.get("/v1/items", label="kind3", limit=2).json()["items"]] == list(PHOTOS)[
        18:20
    ]
    for answer in (server.enrol(photo(5), "new"), server.ask("DELETE", "/v1/items?id=kind0/0.png", key=KEY)):
        assert answer.status_code == 403
        assert "similis index VECTORS --out" in answer.json()["error"]
    assert server.get("/v1/thumbnail", id="kind0/0.png").status_code == 404
    assert server.get("/ready").json()["unknown_threshold"] == "none yet"


def test_damage_is_found_by_verify_alone(saved, model, tmp_path):
    index = build_index(torch.eye(model.dim)[:20], model_hash=model.model_hash)
    (file,) = save_index(index, tmp_path / "index").glob("*.vectors")
    file.write_bytes(file.read_bytes()[:-4] + b"\0\0\x80?")
    given = (saved, tmp_path / "unused.sqlite", Limits(), Metrics())
    for verify in (False, True):
        with pytest.raises(DataError, match="checksum") if verify else nullcontext():
            Collection(*given, index=tmp_path / "index", verify=verify).close()
