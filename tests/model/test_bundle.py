"""A saved model as a bundle: what is in it, what comes back, and that it says which embedding it is."""

import io
import json

import numpy as np
import pytest
import torch
from PIL import Image

import similis
from similis.data.open_data import open_data
from similis.model.bundle import SIDE, error_rates, make_thumbnail, read_rates, read_thumbnails
from similis.model.bundle_files import CHECKSUMS, FILES, ONNX, THRESHOLD, TRAINED
from similis.model.verification import Threshold
from similis.retrieval.gallery import Contents, Entry
from similis.values import DataError, UserError
from tests.data.pictures import picture, write


@pytest.fixture
def model():
    return similis.pretrained("small_conv", weights=None, size=16, device="cpu")


def test_a_bundle_holds_its_files_and_no_others(model, tmp_path):
    model.add([picture(1), picture(2)], labels=["a", "b"], ids=["1", "2"])
    place = model.save(tmp_path / "b", thumbnails={"2": b"small"})
    there = {file.name for file in place.glob("[!.]*")}
    missing = {ONNX, THRESHOLD, TRAINED, "rates.json"}  # two classes of one image have no genuine pair
    assert there == set(FILES) - missing
    assert set(json.loads((place / CHECKSUMS).read_text())) == there - {CHECKSUMS}
    assert read_thumbnails(place) == [b"", b"small"]
    assert read_rates(place) == []


def test_saving_again_leaves_nothing_of_the_model_before(model, tmp_path):
    model.add([picture(1), picture(2)], ids=["1", "2"])
    model.save(tmp_path, thumbnails={"1": b"x"}, onnx=b"network")
    model.remove("1")
    model.save(tmp_path)
    assert read_thumbnails(tmp_path) == []
    assert not (tmp_path / ONNX).exists()
    assert len(similis.load(tmp_path, device="cpu").gallery) == 1


def test_a_folder_of_other_files_is_not_written_to(model, tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match=r"holds 'thesis.tex'.*give a folder of its own"):
        model.save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_hidden_files_and_the_store_of_a_server_may_lie_in_a_bundle(model, tmp_path):
    model.save(tmp_path)
    for name in (".gitattributes", "collection.sqlite", "collection.sqlite-wal"):
        (tmp_path / name).write_bytes(b"x")
    assert similis.load(tmp_path, device="cpu").dim == model.dim
    model.save(tmp_path)
    assert (tmp_path / "collection.sqlite").read_bytes() == b"x"


def test_a_bundle_says_nothing_of_the_folders_of_the_machine(model, tmp_path):
    file = tmp_path / "secret" / "weights.safetensors"
    file.parent.mkdir()
    spec = model.spec.model_copy(update={"weights": str(file)})
    model.spec = spec
    place = model.save(tmp_path / "b")
    for each in place.iterdir():
        assert b"secret" not in each.read_bytes(), each.name
    assert json.loads((place / "model.json").read_text())["network"]["weights"] == "weights.safetensors"


def test_the_hash_names_the_embedding_and_not_the_gallery(model, tmp_path):
    own = model.model_hash
    model.add(picture(1))
    model.name = "other"
    again = similis.load(model.save(tmp_path / "b"), device="cpu")
    assert again.model_hash == own == similis.pretrained("small_conv", weights=None, size=16, device="cpu").model_hash
    assert similis.pretrained("small_conv", weights=None, size=20, device="cpu").model_hash != own
    with torch.no_grad():
        next(again.embedder.parameters())[0] += 1e-3
    del again.model_hash
    assert again.model_hash != own


def test_rates_are_those_of_counted_pairs():
    vectors = torch.nn.functional.normalize(torch.randn(30, 4, generator=torch.Generator().manual_seed(1)), dim=1)
    labels = [str(row % 5) for row in range(30)]
    held = Contents(vectors, [Entry(str(row), label, "") for row, label in enumerate(labels)], 0)
    alike, same = vectors @ vectors.T, np.equal.outer(labels, labels)
    upper = np.triu(np.ones((30, 30), bool), 1)
    rates = error_rates(held)
    assert len(rates) == 200
    for rate in rates[::20]:
        near = np.abs(alike.numpy() - rate.similarity) < 2e-3  # a bin of the histogram
        for pairs, value in ((upper & ~same, rate.false_accept), (upper & same, 1 - rate.false_reject)):
            exact = (alike.numpy()[pairs] >= rate.similarity).mean()
            assert abs(exact - value) <= near[pairs].mean() + 1e-9
    assert (rates[0].false_accept, rates[0].false_reject) == (1.0, 0.0)
    only = error_rates(held, ["0", "1", "nowhere"])
    assert only != rates
    assert only == error_rates(
        Contents(vectors, [e._replace(label=e.label if e.label in "01" else None) for e in held.entries], 0)
    )


def test_a_large_gallery_is_sampled_by_whole_classes(monkeypatch):
    monkeypatch.setattr("similis.model.bundle.MOST_ROWS", 9)
    from similis.model.bundle import labelled_sample

    entries = [Entry(str(row), str(row // 3), "") for row in range(300)]
    found = labelled_sample(Contents(torch.randn(300, 4), entries, 0))
    assert len(found.names) == 3
    assert torch.bincount(found.embedded.labels)[found.embedded.labels.unique()].tolist() == [3, 3, 3]


def test_a_thumbnail_is_small_upright_and_without_metadata():
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "secret camera"  # turned by a quarter
    wide = make_thumbnail(picture(1, 1200, 600, "JPEG", exif=exif))
    image = Image.open(io.BytesIO(wide))
    assert (image.format, image.size) == ("JPEG", (SIDE // 2, SIDE))
    assert b"secret" not in wide
    assert Image.open(io.BytesIO(make_thumbnail(picture(1)))).size == (20, 14)  # not enlarged
    with pytest.raises(DataError, match="cannot be decoded"):
        make_thumbnail(b"no image")


def test_a_data_set_goes_into_a_bundle_and_comes_back(model, tmp_path):
    photos = write(tmp_path / "photos", {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(6) for n in range(4)})
    model.add(open_data(str(photos)))
    model.chosen = Threshold(0.05, model.threshold(far=0.05), 0.1, 0.9, ("kind0", "kind1"), "gallery", "")
    place = model.save(tmp_path / "b")
    again = similis.load(place, device="cpu")
    assert again.chosen == model.chosen
    assert again.search(picture(999), 7) == model.search(picture(999), 7)
    assert len(read_rates(place)) == 200
    card = (place / "README.md").read_text()
    assert "24 images with 6 labels" in card
    assert f"{model.chosen.value:.4f}" in card
    assert "not stated" in card
    assert model.model_hash in card
