"""``similis data check --model``, ``train --exclude`` and ``cluster`` on drawn photos with planted faults."""

from __future__ import annotations

import csv
import io
import json
import logging

import numpy as np
import pytest
import torch

from similis.data.copies import make_copy
from similis.data.exclusion import leave_out, read_exclusions
from similis.data.images import prepare
from similis.data.open_data import open_data
from similis.data.splits import split_data
from similis.model import clusters
from similis.model.fault_report import sheet_title, tile_of
from similis.model.faults import Fault
from similis.model.load import pretrained
from similis.values import DataError, UserError
from tests.cli.test_main import ended

pillow = pytest.importorskip("PIL.Image", reason="needs Pillow")
pytest.importorskip("sknetwork", reason="needs scikit-network")
MODEL = ["--model", "small_conv", "--weights", "none", "--size", "32"]
COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (50, 60, 220), "yellow": (230, 220, 60)}


def draw(colour, number):
    """A colour with soft spots: photos of one colour are alike, no two overlap."""
    chance = np.random.default_rng([number, *COLOURS[colour]])
    spots = pillow.fromarray(chance.integers(0, 90, (7, 7, 3)).astype(np.uint8)).resize(
        (96, 96), pillow.Resampling.BICUBIC
    )
    pixels = np.clip(np.array(COLOURS[colour]) + np.asarray(spots, dtype=np.int64) - 45, 0, 255)
    return pillow.fromarray(pixels.astype(np.uint8))


def save(image, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Two colours train and two test; one copy across, one wrong label, one image of noise."""
    root = tmp_path_factory.mktemp("photos")
    parts = {"red": "train", "green": "train", "blue": "test", "yellow": "test"}
    for colour, part in parts.items():
        for number in range(24):
            save(draw(colour, number), root / part / colour / f"{number:02d}.png")
    save(make_copy(draw("red", 3), np.random.default_rng(0)), root / "test" / "blue" / "copy.png")
    save(draw("green", 50), root / "train" / "red" / "wrong.png")
    noise = np.random.default_rng(0).integers(0, 256, (96, 96, 3)).astype(np.uint8)
    save(pillow.fromarray(noise), root / "train" / "green" / "noise.png")
    return root


@pytest.fixture(scope="module")
def suspects(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    assert ended(["data", "check", str(photos), *MODEL, "--out", str(out)]) == 0
    return out


def lines(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_planted_faults_are_found(suspects):
    found = {
        kind: [line for line in lines(suspects / "suspects.csv") if line["kind"] == kind]
        for kind in ("leak", "label", "stranger")
    }
    assert [(line["path"], line["other"], line["exclude"]) for line in found["leak"]] == [
        ("train/red/03.png", "test/blue/copy.png", "yes")
    ]
    top = found["label"][:2]  # the copy among the blue ones is a wrong label too
    assert {(line["path"], line["other"]) for line in top} == {
        ("train/red/wrong.png", "green"),
        ("test/blue/copy.png", "red"),
    }
    assert found["stranger"][0]["path"] == "train/green/noise.png"
    for line in top:
        assert line["label"] in line["reason"]
        assert line["other"] in line["reason"]
    assert {path.name for path in suspects.iterdir()} >= {"suspects.csv", "leak.png", "label.png", "stranger.png"}
    with pillow.open(suspects / "leak.png") as sheet:
        assert min(sheet.size) > 100


def test_a_sheet_shows_the_doubted_image_with_the_one_that_speaks_against_its_label(photos):
    data = open_data(str(photos))
    row, other = (data.values("path").index(path) for path in ("train/red/wrong.png", "train/green/07.png"))
    fault = Fault("label", 0.96, "train/red/wrong.png", "red", "green", "", True, row, other)
    tile = tile_of(fault, data, data.values("class_name"))
    assert (tile.caption, tile.right) == ("labelled red,\nlooks like green", False)
    assert np.array_equal(tile.beside, [prepare(data.read_bytes(other), resize=112)])
    assert sheet_title([fault] * 50).endswith("(the 40 most certain of 50 shown; red: listed to be excluded)")


def test_the_model_object_finds_the_same_and_clusters(photos, suspects):
    model = pretrained("small_conv", weights=None, size=32, device="cpu")
    found = model.find_faults(open_data(str(photos)))
    assert [(fault.kind, fault.path) for fault in found] == [
        (line["kind"], line["path"]) for line in lines(suspects / "suspects.csv")
    ]
    images = [draw(colour, number) for colour in COLOURS for number in range(6)]
    assert torch.equal(model.cluster(images), torch.arange(len(images)) // 6)
    with pytest.raises(UserError, match="resolution=0 given"):
        model.cluster(images, resolution=0)


def test_training_leaves_out_what_is_listed_and_keeps_the_test(photos, suspects, tmp_path, caplog):
    data = open_data(str(photos))
    split = split_data(data, protocol="default")
    listed = read_exclusions(suspects / "suspects.csv")
    with caplog.at_level(logging.INFO):
        left = leave_out(data, split, listed)
    paths = data.values("path")
    assert "train/red/03.png" in {paths[row] for row in set(split.train.tolist()) - set(left.train.tolist())}
    assert torch.equal(left.test, split.test)
    assert left.fingerprint != split.fingerprint
    assert "more of the list test, and stay" in caplog.text
    options = ["--backbone", "small_conv", *MODEL[2:], "--dim", "8", "--epochs", "1", "--batch", "12"]
    words = ["train", str(photos), *options, "--no-pictures", "--runs", str(tmp_path), "--json"]
    for more in ([], ["--exclude", str(suspects / "suspects.csv")]):
        assert ended([*words, *more]) == 0
    assert len([path for path in tmp_path.iterdir() if (path / "address").exists()]) == 2  # two runs, not one


@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        (None, DataError, "there is no table"),
        ("image\na.png\n", DataError, "a column 'path'"),
        ("path\nnowhere.png\n", UserError, "give the list of this data set"),
    ],
)
def test_a_wrong_list_is_refused(photos, tmp_path, text, error, sentence):
    place = tmp_path / "list.csv"
    if text is not None:
        place.write_text(text)
    data = open_data(str(photos))
    with pytest.raises(error, match=sentence):
        leave_out(data, split_data(data), read_exclusions(place))


@pytest.fixture
def mixed(tmp_path):
    """Eight photos of each of three colours in one folder, and the command that clusters them."""
    folder = tmp_path / "mixed"
    for colour in ("red", "green", "blue"):
        for number in range(8):
            save(draw(colour, number), folder / f"{colour}{number}.png")
    return folder, ["cluster", str(folder), *MODEL, "--out", str(tmp_path / "clusters")]


def test_photos_become_clusters_and_later_ones_join(mixed, tmp_path, capsys):
    (folder, words), out = mixed, tmp_path / "clusters"
    assert ended([*words, "--folders", "--json"]) == 0
    found = json.load(io.StringIO(capsys.readouterr().out))
    table = {line["path"]: int(line["cluster"]) for line in lines(out / "clusters.csv")}
    assert (found["photos"], found["new"], found["clusters"]) == (24, 24, 3)
    assert len({(path[:-5], cluster) for path, cluster in table.items()}) == 3
    assert (out / "cluster-00000").is_dir()
    assert (out / "clusters.png").is_file()
    save(draw("red", 20), folder / "red9.png")
    save(draw("yellow", 0), folder / "yellow9.png")
    for new in (2, 0):
        assert ended([*words, "--json"]) == 0
        again = json.load(io.StringIO(capsys.readouterr().out))
        assert (again["photos"], again["new"], again["clusters"]) == (26, new, 3)
    later = {line["path"]: int(line["cluster"]) for line in lines(out / "clusters.csv")}
    assert {path: later[path] for path in table} == table
    assert later["red9.png"] == table["red0.png"]


def test_the_sheet_of_clusters_stays_below_2000_pixels_and_begins_with_a_summary(mixed, monkeypatch):
    drawn = []
    monkeypatch.setattr(clusters, "save_figure", lambda figure, _: drawn.append(figure))
    photos = 20 * sorted(path.name for path in mixed[0].iterdir())
    assignment = torch.cat([torch.arange(60).repeat_interleave(7), torch.full((60,), 1)])
    clusters.draw_clusters(clusters.Clustering(photos, assignment, 0), mixed[0], mixed[0])
    words = "480 photos in 60 clusters (largest 67 photos, median 7; 0 of one photo); the 48 largest are shown"
    assert drawn[0].texts[0].get_text() == words
    width, height = drawn[0].get_size_inches() * drawn[0].dpi
    assert 1800 < min(width, height) <= max(width, height) <= 2000


def test_clusters_of_another_resolution_or_model_are_refused(mixed, capsys):
    _, words = mixed
    assert ended([*words, "--no-pictures"]) == 0
    assert ended([*words, "--resolution", "2"]) == 2
    assert "resolution 2 given, but" in (said := " ".join(capsys.readouterr().err.split()))
    assert "holds clusters of resolution 5; give that" in said
    assert ended([*words, "--size", "48"]) == 2
    assert "another model" in capsys.readouterr().err


def test_one_photo_is_one_cluster_and_none_an_error(tmp_path, capsys):
    words = ["cluster", str(tmp_path / "one"), *MODEL, "--out", str(tmp_path / "clusters"), "--json"]
    (tmp_path / "one").mkdir()
    assert ended(words) == 1
    assert "holds no image" in capsys.readouterr().err
    save(draw("red", 0), tmp_path / "one" / "red.png")
    assert ended(words) == 0
    assert json.load(io.StringIO(capsys.readouterr().out))["clusters"] == 1
