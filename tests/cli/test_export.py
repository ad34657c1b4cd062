"""``similis export``: a bundle with the run's own figures, an ONNX file that was proved."""

import json
import re
import shutil

import pytest
import torch

import similis
from similis.data.open_data import open_data
from similis.model import onnx_export
from similis.model.bundle import read_rates, read_thumbnails
from similis.model.onnx_export import export_onnx
from similis.retrieval.intervals import mean_interval
from similis.values import DataError
from tests.cli.test_main import ended
from tests.data.pictures import photos, picture, write
from tests.run.small import ran

CLASSES, EACH = 14, 6


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished run over a folder of pictures."""
    root = tmp_path_factory.mktemp("export")
    write(root / "photos", {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(CLASSES) for n in range(EACH)})
    return ran(root / "runs", data__source=str(root / "photos"), training__batch_size=4, training__epochs=1)


@pytest.fixture(scope="module")
def bundle(done, tmp_path_factory):
    place = tmp_path_factory.mktemp("bundle") / "b"
    assert ended(["export", str(done.folder), str(place), "--licence", "CC-BY-4.0 | mine"]) == 0
    return place


def test_a_bundle_answers_as_the_run_without_its_images(done, bundle):
    run, again = (similis.load(place, device="cpu") for place in (done.folder, bundle))
    run.add(open_data(done.spec.data.source))
    assert again.search(picture(999), 9) == run.search(picture(999), 9)
    assert again.model_hash == run.model_hash
    assert again.name == done.folder.name
    pictures = read_thumbnails(bundle)
    assert len(pictures) == len(again.gallery) == CLASSES * EACH
    assert all(each.startswith(b"\xff\xd8") for each in pictures)


def test_threshold_and_rates_come_from_classes_that_were_not_trained_on(done, bundle):
    model, kept = similis.load(bundle, device="cpu"), done.embeddings()
    data = open_data(done.spec.data.source)
    names = {data.values("class_name")[row] for row in kept["ids"].tolist()}
    assert set(model.chosen.classes) == names
    assert 1 < len(names) < CLASSES
    alike = torch.nn.functional.normalize(kept["vectors"], dim=1)
    alike, other = alike @ alike.T, kept["labels"][:, None] != kept["labels"]
    above = alike[other] >= model.chosen.value + 1e-6  # products of other shapes round otherwise
    assert float(above.double().mean()) <= model.chosen.far
    middle = read_rates(bundle)[100]
    exact = float((alike[other] >= middle.similarity).double().mean())
    assert middle.false_accept == pytest.approx(exact, abs=0.02)


def test_the_card_says_what_the_run_recorded(done, bundle):
    card, values = (bundle / "README.md").read_text(), json.loads((done.folder / "result.json").read_text())
    scores = done.scores()
    span = mean_interval(scores["recall@1"], scores["labels"])
    row = re.search(r"^\| this model \| (.*) \| (.*) to (.*) \| (.*) \|$", card, re.M).groups()
    expected = (values["test"]["recall@1"], span.low, span.high, values["test"]["map@r"])
    assert row == tuple(f"{100 * value:.2f}" for value in expected)
    floors = re.findall(r"^\| baseline: .* at (\d+) pixels \| (\S+) \|  \| (\S+) \|$", card, re.M)
    assert floors == [
        (str(b["pixels"]), f"{100 * b['recall@1']:.2f}", f"{100 * b['map@r']:.2f}") for b in values["before"]
    ]
    assert values["facts"]["data"] in card
    images, classes = values["facts"]["images"], values["facts"]["classes"]
    both = [each["train"] + each["validation"] for each in (images, classes)]  # refitted on all of them
    assert f"| train | {both[0]} | {both[1]} |" in card
    assert f"| validation, then trained on too | {images['validation']} | {classes['validation']} |" in card
    assert f"| test | {images['test']} | {classes['test']} |" in card
    assert f"| length chosen on | {values['selected_on']} |" in card
    assert r"| licence | CC-BY-4.0 \| mine |" in card
    assert str(done.folder.parent) not in card


def test_a_bundle_is_exported_again_with_its_record_and_another_gallery(bundle, done, tmp_path, capsys):
    photos = write(tmp_path / "new", {f"new{c}/{n}.png": picture(500 + 10 * c + n) for c in range(2) for n in range(3)})
    place = tmp_path / "b"
    assert ended(["export", str(bundle), str(place), "--gallery", str(photos), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["images"], told["onnx_difference"]) == (6, None)
    model = similis.load(place, device="cpu")
    assert {hit.label for hit in model.search(picture(1), 6)} == {"new0", "new1"}
    assert model.model_hash == told["model_hash"] == similis.load(bundle, device="cpu").model_hash
    records = [(each / "README.md").read_text().partition("## Data")[2] for each in (bundle, place)]
    assert records[0] == records[1] != ""
    same = tmp_path / "same"
    assert ended(["export", str(bundle), str(same)]) == 0
    assert read_thumbnails(same) == read_thumbnails(bundle)


def test_moved_images_are_asked_for(done, tmp_path, capsys):
    folder = shutil.copytree(done.folder, tmp_path / "run")
    values = json.loads((folder / "result.json").read_text())
    values["spec"]["data"]["source"] = str(tmp_path / "moved")
    (folder / "result.json").write_text(json.dumps(values))
    assert ended(["export", str(folder), str(tmp_path / "b")]) == 1
    assert "say where with --gallery" in capsys.readouterr().err
    assert ended(["export", str(folder), str(folder), "--gallery", done.spec.data.source]) == 2
    assert "give a folder of its own" in capsys.readouterr().err


def test_onnx_runtime_embeds_as_the_bundle_does(done, tmp_path, capsys):
    runtime = pytest.importorskip("onnxruntime")
    place = tmp_path / "b"
    assert ended(["export", str(done.folder), str(place), "--onnx", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["onnx_difference"]
    assert 0 <= told <= 1e-4
    model = similis.load(place, device="cpu")
    session = runtime.InferenceSession(place / "model.onnx", providers=["CPUExecutionProvider"])
    for count in (1, 3, 17):
        images = torch.randn(count, 3, 16, 16)
        with torch.no_grad():
            expected = model.embedder(images)
        (found,) = session.run(["embeddings"], {"images": images.numpy()})
        assert found.shape == (count, model.dim)
        assert torch.allclose(torch.from_numpy(found), expected, atol=1e-5)


def test_an_onnx_file_that_computes_something_else_is_refused(monkeypatch):
    pytest.importorskip("onnxruntime")
    model = similis.pretrained("small_conv", weights=None, size=16, device="cpu")
    monkeypatch.setattr(onnx_export, "LARGEST", 0.0)
    with pytest.raises(DataError, match=r"differ from the network's by .*export without --onnx"):
        export_onnx(model.embedder, torch.randn(3, 3, 16, 16))


@pytest.mark.slow
@pytest.mark.photos
@pytest.mark.timeout(3600)
def test_onnx_runtime_pytorch_and_server_agree_on_a_thousand_real_photos(tmp_path):
    """The same embeddings to 1e-4, and the same ten nearest photos in the same order."""
    runtime = pytest.importorskip("onnxruntime")
    root = photos("grocery")
    data = open_data("grocery", root=root)
    rows = torch.linspace(0, len(data) - 1, 1000).long().tolist()
    weights = f"{root}/weights/tf_efficientnet_lite0_imagenet.safetensors"
    model = similis.pretrained("tf_efficientnet_lite0", weights=weights, device="cpu")
    files = [data.read_bytes(row) for row in rows]
    prepared = [model._encoder.prepare(files[i : i + 50])[1] for i in range(0, 1000, 50)]
    made, difference = export_onnx(model.embedder, prepared[0])
    assert difference <= 1e-4
    session = runtime.InferenceSession(made, providers=["CPUExecutionProvider"])
    told = (session.run(None, {"images": part.contiguous().numpy()})[0] for part in prepared)
    found = torch.cat([torch.from_numpy(each) for each in told])
    expected = model.encode(files)
    ours = similis.search(expected, expected, 10)
    answers = {"onnx": (found, similis.search(found, found, 10).index), "server": ask_server(model, files, tmp_path)}
    for name, (vectors, index) in answers.items():
        largest = float((vectors - expected).abs().max())
        print(f"{name}: largest difference of an embedding {largest:.1e}")
        assert largest <= 1e-4
        print(f"{name}: {int((ours.index != index).any(1).sum())} of 1,000 rankings differ, by ties alone")
        chosen = (expected @ expected.T).gather(1, index)
        assert torch.allclose(chosen, ours.similarity, atol=2e-6)  # the same photos, but for ties in the last digits


def ask_server(model, files, place):
    """Embeddings that a server keeps of photos sent to it, and the ten nearest that it finds of each."""
    pytest.importorskip("fastapi")
    from similis.serving.store import Store
    from tests.serving.running import Server

    folder = model.save(place / "model")
    with Server(folder) as server:
        for number, data in enumerate(files):
            assert server.enrol(data, str(number)).status_code == 201
        found = [server.form("/v1/search", {"file": data}, k=10).json()["hits"] for data in files]
    store = Store(folder / "collection.sqlite", read_only=True)
    vectors, entries = store.load()
    store.close()
    assert [entry.id for entry in entries] == [str(number) for number in range(len(files))]
    return vectors, torch.tensor([[int(hit["id"]) for hit in hits] for hits in found])
