"""A served collection moves to another model: every answer is exact in the space that it names, no write is lost."""

import json
import threading
import time

import pytest
import torch

from benchmarks.upgrade_kills import kill_often
from similis.data.open_data import open_data
from similis.model.bundle_files import STORE
from similis.model.collection_file import prepared_file
from similis.model.export import export_bundle
from similis.model.load import load, pretrained
from similis.run.machine import Machine
from similis.serving.prepared import Prepared
from similis.serving.store import Store
from similis.serving.upgrade import request_of, upgrade_collection
from similis.values import UserError
from tests.cli.test_main import ended
from tests.serving.running import KEY, PHOTOS, Server, photo


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another model: the same network for images of another size."""
    return pretrained("small_conv", weights=None, size=24).save(tmp_path_factory.mktemp("other") / "model")


@pytest.fixture(scope="module")
def image_folder(tmp_path_factory):
    """The photos of the bundle in a folder, under other names."""
    place = tmp_path_factory.mktemp("images")
    for number, (name, data) in enumerate(PHOTOS.items()):
        file = place / name.split("/")[0] / f"moved-{number}.png"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
    return place


@pytest.fixture(scope="module")
def images(image_folder):
    return open_data(str(image_folder))


def vectors_of(folder):
    from similis.model.collection_file import served_model

    store = Store(folder / STORE, read_only=True)
    vectors, entries = store.load()
    store.close()
    return load(served_model(folder, folder / STORE)), {
        entry.id: vector for entry, vector in zip(entries, vectors, strict=True)
    }


def serve_once(folder, enrolled=(), **options):
    with Server(folder, **options) as server:
        for number in enrolled:
            server.enrol(photo(number), f"new {number}", "new")


def test_images_are_found_by_contents_and_back_is_the_same(folder, other, images):
    serve_once(folder)
    before = vectors_of(folder)[1]
    done = upgrade_collection(folder, other, file=folder / STORE, data=images)
    assert (done.items, done.embedded, done.mapped) == (len(PHOTOS), len(PHOTOS), 0)
    model, found = vectors_of(folder)
    assert model.model_hash == load(other).model_hash
    for name, data in PHOTOS.items():
        assert torch.allclose(found[name], model.encode(data), atol=1e-5)
    with Server(folder) as server:
        hits = server.form("/v1/search", {"file": PHOTOS["kind2/1.png"]}, k=1).json()
        assert (hits["model"], hits["hits"][0]["id"]) == (model.model_hash, "kind2/1.png")
        assert server.ask("GET", "/v1/thumbnail", params={"id": "kind2/1.png"}).status_code == 200
    back = upgrade_collection(folder, None, file=folder / STORE, data=None)
    assert (back.embedded, back.mapped) == (0, 0)
    again = vectors_of(folder)[1]
    assert all(torch.equal(again[name], vector) for name, vector in before.items())


def test_the_verb_moves_returns_and_refuses(folder, other, image_folder, capsys):
    serve_once(folder)
    words = ["upgrade", str(folder), "--json"]
    move = [*words, "--model", str(other), "--images", str(image_folder)]
    assert ended([*move, "--estimate"]) == 2
    assert "give 50 or more" in capsys.readouterr().err  # two dozen photos say too little
    assert ended(move) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["items"], found["embedded"], found["mapped"]) == (len(PHOTOS), len(PHOTOS), 0)
    assert found["model_hash"] == load(other).model_hash
    assert ended([*words, "--back"]) == 0
    assert json.loads(capsys.readouterr().out)["previous"] == found["model_hash"]
    assert ended(words) == 2
    assert "give --model RUN" in capsys.readouterr().err


def test_items_without_images_are_mapped_and_counted(folder, other, images):
    serve_once(folder, enrolled=(901, 902))
    done = upgrade_collection(folder, other, file=folder / STORE, data=images)
    assert done.mapped == 2
    model, found = vectors_of(folder)
    mapped = torch.stack([found["new 901"], found["new 902"]])
    own = model.encode([photo(901), photo(902)])
    others = torch.stack([found[name] for name in PHOTOS])
    assert torch.allclose(mapped.norm(dim=1), torch.ones(2), atol=1e-5)
    assert float((mapped * own).sum(1).mean()) > float((others @ own.T).mean())
    back = upgrade_collection(folder, None, file=folder / STORE, data=None)
    assert back.mapped == 0  # the old vectors are known


def test_a_vector_that_replaces_another_before_the_return_is_kept(folder, other, images):
    vector = torch.nn.functional.normalize(torch.arange(256.0), dim=0)
    body = {"ids": ["ready"], "vectors": [vector.tolist()]}
    with Server(folder) as server:
        sent = body | {"model": load(folder).model_hash}
        assert server.ask("POST", "/v1/items/vectors", json=sent, key=KEY).status_code == 201
    assert upgrade_collection(folder, other, file=folder / STORE, data=images).mapped == 1
    with Server(folder) as server:
        sent = body | {"model": load(other).model_hash, "vectors": [vector.flip(0).tolist()]}
        assert server.ask("POST", "/v1/items/vectors", json=sent, key=KEY).status_code == 201
    assert upgrade_collection(folder, None, file=folder / STORE, data=None).mapped == 1  # not the vector of before
    assert not torch.allclose(vectors_of(folder)[1]["ready"], vector, atol=1e-2)


def test_kept_images_are_embedded_without_a_folder(folder, other):
    serve_once(folder, enrolled=range(900, 906), keep_images=True)
    done = upgrade_collection(folder, other, file=folder / STORE, data=None)
    assert (done.embedded, done.mapped) == (6, len(PHOTOS))
    model, found = vectors_of(folder)
    assert torch.allclose(found["new 903"], model.encode(photo(903)), atol=1e-5)


def test_nothing_to_embed_says_what_to_do(folder, other):
    serve_once(folder)
    with pytest.raises(UserError, match="--images"):
        upgrade_collection(folder, other, file=folder / STORE, data=None)
    with pytest.raises(UserError, match="never upgraded"):
        upgrade_collection(folder, None, file=folder / STORE, data=None)


def test_a_server_that_starts_during_the_switch_waits_and_takes_the_new_model(folder, other, images):
    """Its model is read when no upgrade can change it any more."""
    serve_once(folder)
    held = Store(folder / STORE)
    assert prepared_file(folder / STORE).write_bytes(b"") == 0  # as an upgrade has it

    def switch():
        time.sleep(1.0)
        held.close()
        prepared_file(folder / STORE).unlink()
        upgrade_collection(folder, other, file=folder / STORE, data=images)

    mover = threading.Thread(target=switch)
    mover.start()
    with Server(folder) as server:
        mover.join()
        found = server.form("/v1/search", {"file": PHOTOS["kind2/1.png"]}, k=1).json()
        assert found["model"] in {load(place).model_hash for place in (folder, other)}
        assert found["hits"][0]["similarity"] == pytest.approx(1, abs=1e-5)


def test_export_into_a_served_folder_is_refused(folder, other):
    with Server(folder), pytest.raises(UserError, match="being served"):
        export_bundle(other, folder, Machine())
    with pytest.raises(UserError, match="similis upgrade"):
        export_bundle(other, folder, Machine())


def test_a_running_server_switches_while_it_is_asked_and_written_to(folder, other, images):
    models = {load(place).model_hash: load(place) for place in (folder, other)}
    asked, failed, named = photo(905), [], set()
    with Server(folder, keep_images=True) as server:
        ending = threading.Event()
        acknowledged = {}

        def write():
            for number in range(1000):
                if ending.is_set():
                    return
                data = photo(2000 + number)
                sent = [("file", ("f", data)), ("ids", (None, f"w{number}"))]
                answer = server.ask("POST", "/v1/items", files=sent, key=KEY)
                if answer.status_code == 201:
                    acknowledged[f"w{number}"] = data
                elif answer.status_code != 503:
                    failed.append(answer.text)

        writer = threading.Thread(target=write)
        writer.start()
        upgrade = threading.Thread(
            target=lambda: upgrade_collection(folder, other, file=folder / STORE, data=images), daemon=True
        )
        upgrade.start()
        until = time.monotonic() + 200
        while time.monotonic() < until and (upgrade.is_alive() or len(named) < 2):
            found = server.form("/v1/search", {"file": asked}, k=3).json()
            model = models[found["model"]]
            named.add(found["model"])
            query = model.encode(asked)
            for hit in found["hits"]:
                data = PHOTOS.get(hit["id"]) or photo(2000 + int(hit["id"][1:]))
                if abs(float(model.encode(data) @ query) - hit["similarity"]) > 1e-4:
                    failed.append(hit)
        ending.set()
        writer.join()
        listed = server.listed()
    assert not failed, failed[:3]
    assert len(named) == 2
    assert acknowledged.keys() <= listed.keys()
    assert not request_of(folder / STORE).exists()
    model, found = vectors_of(folder)
    for name, data in acknowledged.items():
        assert torch.allclose(found[name], model.encode(data), atol=1e-4), name


def test_prepared_vectors_of_another_model_are_forgotten(tmp_path):
    first = Prepared(tmp_path / "store", "a")
    first.add([("x", "d", b"1234")])
    first.close()
    again = Prepared(tmp_path / "store", "a")
    assert again.rows() == {("x", "d"): b"1234"}
    again.close()
    assert not Prepared(tmp_path / "store", "b").rows()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_twenty_times(tmp_path):
    found = kill_often(tmp_path, items=500, kills=20)
    assert not found["wrong"], found["first wrong"]
    assert found["switches"]
    assert found["spaces"] == 2
    assert found["acknowledged writes"] > 20
