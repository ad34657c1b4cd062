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
from similis.data.open_data import open_data
from similis.data.splits import split_data
from similis.run.load import pretrained
from similis.run.verification import Threshold
from similis.values import DataError, UserError
from tests.cli.test_main import ended

pillow = pytest.importorskip("PIL.Image", reason="needs Pillow")
pytest.importorskip("scipy", reason="needs scipy")
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


def test_the_model_object_finds_the_same_and_clusters(photos, suspects):
    model = pretrained("small_conv", weights=None, size=32, device="cpu")
    found = model.find_faults(open_data(str(photos)))
    assert [(fault.kind, fault.path) for fault in found] == [
        (line["kind"], line["path"]) for line in lines(suspects / "suspects.csv")
    ]
    images = [draw(colour, number) for colour in COLOURS for number in range(6)]
    own = torch.arange(len(images)) // 6
    assert torch.equal(model.cluster(images, threshold=0.97), own)
    model.enrol(images[:6], "red")
    model.enrol(images[6:12], "green")
    limit = model.threshold(far=0.1)
    model.chosen = Threshold(0.1, limit, limit, limit, 1.0, 0.0, ("red", "green"), "gallery", "")
    assert torch.equal(model.cluster(images), model.cluster(images, threshold=limit))


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
    options = [
        "--backbone",
        "small_conv",
        "--weights",
        "none",
        "--size",
        "32",
        "--dim",
        "8",
        "--epochs",
        "1",
        "--batch",
        "12",
    ]
    words = ["train", str(photos), *options, "--no-pictures", "--runs", str(tmp_path), "--json"]
    for more in ([], ["--exclude", str(suspects / "suspects.csv")]):
        assert ended([*words, *more]) == 0
    assert len([path for path in tmp_path.iterdir() if (path / "address").exists()]) == 2  # two runs, not one


@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        (None, UserError, "similis data check"),
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


def test_photos_become_clusters_and_later_ones_join(tmp_path, capsys):
    folder, out = tmp_path / "mixed", tmp_path / "clusters"
    for colour in ("red", "green", "blue"):
        for number in range(8):
            save(draw(colour, number), folder / f"{colour}{number}.png")
    words = ["cluster", str(folder), *MODEL, "--out", str(out)]
    assert ended(words) == 2
    assert "--labelled" in capsys.readouterr().err
    labelled = tmp_path / "labelled"
    for colour in COLOURS:
        for number in range(30, 36):
            save(draw(colour, number), labelled / colour / f"{number}.png")
    capsys.readouterr()
    assert ended([*words, "--labelled", str(labelled), "--folders", "--json"]) == 0
    found = json.load(io.StringIO(capsys.readouterr().out))
    table = {line["path"]: int(line["cluster"]) for line in lines(out / "clusters.csv")}
    assert found["clusters"] == 3
    assert len({(path[:-5], cluster) for path, cluster in table.items()}) == 3
    assert (out / "cluster-00000").is_dir()
    assert (out / "clusters.png").is_file()
    save(draw("red", 20), folder / "red9.png")
    save(draw("yellow", 0), folder / "yellow9.png")
    assert ended([*words, "--threshold", str(found["threshold"]), "--json"]) == 0
    again = json.load(io.StringIO(capsys.readouterr().out))
    later = {line["path"]: int(line["cluster"]) for line in lines(out / "clusters.csv")}
    assert again["new"] == 2
    assert again["clusters"] == 4
    assert {path: later[path] for path in table} == table
    assert later["red9.png"] == table["red0.png"]
    assert later["yellow9.png"] == 3
