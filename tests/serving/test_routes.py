"""Every route of a running server; its answers are those of the model object."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from tests.serving.running import KEY, PHOTOS, photo

NAME = "kind1/2.png"


def found(answer):
    assert answer.status_code == 200, answer.text
    return [(hit["id"], hit["label"], hit["similarity"]) for hit in answer.json()["hits"]]


def test_search_by_image_is_the_search_of_the_model(server, model):
    for seed in range(700, 705):
        mine = model.search(photo(seed), 10)
        answer = found(server.form("/v1/search", {"file": photo(seed)}, k=10))
        assert [hit[:2] for hit in answer] == [(hit.id, hit.label) for hit in mine]
        assert np.allclose([hit[2] for hit in answer], [hit.similarity for hit in mine], atol=1e-5)


def test_search_by_vector_and_by_id_agree_with_search_by_image(server, model):
    by_image = found(server.form("/v1/search", {"file": PHOTOS[NAME]}))
    vector = model.gallery.find(NAME)[1].numpy().astype("<f4").tobytes()
    path = f"/v1/search/vector?model={model.model_hash}"
    kind = {"Content-Type": "application/octet-stream"}
    assert found(server.ask("POST", path, data=vector, headers=kind)) == by_image
    assert found(server.form("/v1/search", id=NAME)) == by_image
    assert len(by_image) == 12
    assert by_image[0][0] == NAME
    assert by_image[0][2] == pytest.approx(1.0, abs=1e-5)


def test_copies_k_and_label(server, model):
    without = found(server.form("/v1/search", {"file": PHOTOS[NAME]}, copies="false", k=23))
    assert NAME not in [hit[0] for hit in without]
    assert len(without) == 23
    assert found(server.form("/v1/search", id=NAME, copies="false", k=23)) == without
    only = found(server.form("/v1/search", {"file": PHOTOS[NAME]}, label="kind3", k=200))
    assert len(only) == 6
    assert [hit[0] for hit in only] == [hit.id for hit in model.search(PHOTOS[NAME], 200, label="kind3")]
    assert found(server.form("/v1/search", id=NAME, label="nobody")) == []


def test_classify_knows_its_images_and_answers_unknown(server, model):
    assert server.form("/v1/classify", {"file": PHOTOS[NAME]}, k=1).json()["label"] == "kind1"
    answers = [server.form("/v1/classify", {"file": photo(seed)}).json() for seed in range(900, 915)]
    mine = model.classify([photo(seed) for seed in range(900, 915)])
    assert [answer["label"] for answer in answers] == [answer.label for answer in mine]
    assert [answer["nearest"] for answer in answers] == [answer.nearest for answer in mine]
    assert [answer["note"] for answer in answers] == [answer.note for answer in mine]
    assert None not in [answer.nearest for answer in mine]


def test_same_uses_the_rates_of_the_bundle(server, model):
    answer = server.form("/v1/same", {"a": PHOTOS[NAME], "b": PHOTOS[NAME]}, far=0.05).json()
    assert answer["same"]
    assert answer["similarity"] == pytest.approx(1.0, abs=1e-5)
    other = server.form("/v1/same", {"a": PHOTOS[NAME], "b": photo(950)}, far=0.05).json()
    assert other["similarity"] == pytest.approx(float(model.similarity(PHOTOS[NAME], photo(950))), abs=1e-5)
    rates = [rate for rate in server.get("/v1/model").json()["rates"] if rate["false_accept"] <= 0.05]
    assert other["threshold"] == min(rate["similarity"] for rate in rates)


def test_explain_is_a_picture_of_the_part_that_was_asked_for(server):
    for query in ({"files": {"file": photo(3)}}, {"query_id": "kind0/0.png"}):
        whole, part = (server.form("/v1/explain", id=NAME, **query, **box) for box in ({}, {"box": "0,0,0.4,1"}))
        for answer in (whole, part):
            assert answer.headers["content-type"] == "image/png"
            assert Image.open(io.BytesIO(answer.content)).width > 100
        assert whole.content != part.content


def test_a_part_of_an_item_is_cut_from_its_picture(server, model):
    small = Image.open(io.BytesIO(server.get("/v1/thumbnail", id=NAME).content))
    want = [hit.id for hit in model.search(small.crop((0, 0, 30, 40)), 5)]
    assert [hit[0] for hit in found(server.form("/v1/search", id=NAME, box="0,0,0.5,1", k=5))] == want
    others = found(server.form("/v1/search", id=NAME, box="0,0,1,1", copies="false", k=24))
    assert NAME not in [hit[0] for hit in others]


def test_items_are_listed_in_pages(server):
    first = server.get("/v1/items", limit=5, label="kind2").json()
    second = server.get("/v1/items", limit=5, label="kind2", after=first["next"]).json()
    assert [item["id"] for item in first["items"] + second["items"]] == [f"kind2/{n}.png" for n in range(6)]
    assert second["next"] is None
    assert set(PHOTOS) <= set(server.listed())


def test_thumbnails(server):
    answer = server.get("/v1/thumbnail", id=NAME)
    assert answer.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(answer.content)).size == (60, 40)
    assert "max-age" in answer.headers["cache-control"]
    assert server.get("/v1/thumbnail", id="nobody").status_code == 404


def test_the_page_and_its_policy(server):
    answer = server.get("/")
    policy = answer.headers["content-security-policy"]
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_health_readiness_metrics(server):
    assert server.get("/health").json() == {"status": "ok"}
    assert server.get("/ready").status_code == 200
    before = server.get("/metrics").text
    server.form("/v1/search", {"file": photo(4000)})  # not of the collection: those are not encoded again
    after = server.get("/metrics").text
    line = 'similis_requests_total{route="/v1/search",status="200"} '
    counts = [float(text.partition(line)[2].partition("\n")[0] or 0) for text in (before, after)]
    assert counts[1] == counts[0] + 1
    for name in ("similis_items 2", 'similis_batch_size_count{work="encode"}', "similis_queue_length 0"):
        assert name in after
    assert 'similis_request_seconds_bucket{le="+Inf",route="/v1/search"}' in after


def test_enrol_replace_and_forget(server):
    for label in ("new", "newer"):  # the second time a retry with another label: it replaces
        answer = server.enrol(photo(5000), "own name", label)
        assert (answer.status_code, answer.json()) == (201, {"ids": ["own name"]})
        assert found(server.form("/v1/search", {"file": photo(5000)}))[0][:2] == ("own name", label)
        assert server.listed()["own name"] == label
    assert server.get("/v1/thumbnail", id="own name").status_code == 200
    unnamed = server.form("/v1/items", {"file": photo(5001)}, label="newer", key=KEY).json()["ids"]
    assert server.form("/v1/items", {"file": photo(5001)}, label="newer", key=KEY).json()["ids"] == unnamed
    assert server.ask("DELETE", "/v1/items", params={"id": "own name"}, key=KEY).status_code == 204
    assert server.ask("DELETE", "/v1/items", params={"id": "own name"}, key=KEY).status_code == 404
    assert server.get("/v1/thumbnail", id="own name").status_code == 404
    assert server.ask("DELETE", "/v1/labels", params={"label": "newer"}, key=KEY).json() == {"removed": 1}
    assert server.ask("DELETE", "/v1/labels", params={"label": "newer"}, key=KEY).status_code == 404
    assert server.listed().keys() == PHOTOS.keys()


def test_enrol_vectors(server, model):
    vectors = torch.nn.functional.normalize(torch.randn(3, model.dim), dim=1)
    body = {"model": model.model_hash, "ids": ["v0", "v1", "v2"], "labels": ["v", None, "w"]}
    body["vectors"] = vectors.tolist()
    assert server.ask("POST", "/v1/items/vectors", json=body, key=KEY).json() == {"ids": body["ids"]}
    answer = server.ask("POST", "/v1/search/vector?k=1", data=vectors[1].numpy().tobytes())
    assert found(answer)[0][:2] == ("v1", None)
    assert answer.json()["answer"] is not None  # of those with labels
    other = {**body, "model": "0" * 64, "ids": ["x", "y", "z"]}
    assert server.ask("POST", "/v1/items/vectors", json=other, key=KEY).status_code == 409
    assert (
        server.ask("POST", f"/v1/search/vector?model={'0' * 64}", data=vectors[1].numpy().tobytes()).status_code == 409
    )
    for name in body["ids"]:
        assert server.ask("DELETE", "/v1/items", params={"id": name}, key=KEY).status_code == 204
    assert server.listed().keys() == PHOTOS.keys()


BODY = {"ids": ["a"], "labels": [None], "vectors": [[0.0] * 256]}


@pytest.mark.parametrize(
    ("path", "more", "status", "words"),
    [
        ("/v1/search", {"files": {}}, 422, "either file"),
        ("/v1/search", {"files": [("k", (None, "3"))]}, 422, "either file"),
        ("/v1/search", {"files": [("id", (None, "nobody"))]}, 404, "no item 'nobody'"),
        ("/v1/search", {"files": [("id", (None, NAME)), ("k", (None, "0"))]}, 422, "k is '0'"),
        ("/v1/search", {"files": [("id", (None, NAME)), ("k", (None, "9" * 5000))]}, 422, "k is"),
        ("/v1/search", {"files": [("id", (None, NAME)), ("copies", (None, "maybe"))]}, 422, "copies is 'maybe'"),
        ("/v1/search", {"files": [("id", (None, NAME)), ("label", (None, "a" * 513))]}, 422, "at most 512 characters"),
        ("/v1/search", {"files": [("file", ("f", photo(1))), ("box", (None, "1,0,0,1"))]}, 422, "box is"),
        ("/v1/search", {"files": [("file", ("f", photo(1))), ("box", (None, "nan,0,1,1"))]}, 422, "box is"),
        ("/v1/search", {"files": [("file", ("f", b"text"))]}, 415, "not an image"),
        ("/v1/search", {"files": [("file", ("f", b""))]}, 415, "not an image"),
        ("/v1/search", {"files": [("file", ("f", photo(1)[:300]))]}, 422, "cannot be decoded"),
        ("/v1/search/vector", {"data": b"123"}, 422, "1,024"),
        ("/v1/search/vector", {"data": np.full(256, np.nan, "<f4").tobytes()}, 422, "not finite"),
        ("/v1/search/vector?k=x", {"data": bytes(1024)}, 422, "k is 'x'"),
        ("/v1/classify", {"files": [("k", (None, "3"))]}, 422, "file: Field required"),
        ("/v1/same", {"files": [("a", ("f", photo(1))), ("b", ("f", photo(2))), ("far", (None, "2"))]}, 422, "far is"),
        ("/v1/explain", {"files": [("file", ("f", photo(1)))]}, 422, "give id"),
        ("/v1/items", {"files": [("label", (None, "x"))]}, 422, "file: Field required"),
        ("/v1/items", {"files": [("file", ("f", photo(1))), ("ids", (None, "a")), ("ids", (None, "b"))]}, 422, "2 ids"),
        ("/v1/items", {"files": [("file", ("f", photo(1))), ("file", ("f", b"GIF89a"))]}, 415, "not an image"),
        ("/v1/items/vectors", {"data": b"[" * 100_000}, 422, "as JSON"),
        ("/v1/items/vectors", {"json": {**BODY, "model": 3}}, 422, "model: "),
        ("/v1/items/vectors", {"json": {**BODY, "vectors": [[1.0]]}}, 422, "256"),
        ("/v1/items/vectors", {"json": {**BODY, "vectors": [[1e300] * 256]}}, 422, "not finite"),
        ("/v1/items/vectors", {"json": {**BODY, "ids": ["a", "b"]}}, 422, "2 ids"),
        ("/v1/items/vectors", {"json": {**BODY, "ids": ["\ud800"]}}, 422, ""),
        ("/v1/nowhere", {}, 404, "/v1/nowhere"),
        ("/v1/model", {}, 405, "POST"),
        ("/v1/items?limit=0", {"method": "GET"}, 422, "limit"),
        ("/v1/items?limit=x", {"method": "GET"}, 422, "limit"),
        ("/v1/items?limit=1001", {"method": "GET"}, 422, "limit"),
    ],
)  # fmt: skip
def test_mistakes_have_their_codes(server, model, path, more, status, words):
    if isinstance(more.get("json"), dict):
        more = {"json": {"model": model.model_hash, **more["json"]}}
    answer = server.ask(**{"method": "POST", "path": path, "key": KEY, **more})
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text
    assert server.listed().keys() == PHOTOS.keys()
