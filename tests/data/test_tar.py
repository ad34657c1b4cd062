"""Shards of WebDataset: members by their places, classes from .cls, .json or folders."""

import io
import json
import tarfile

import pytest

import similis
from similis.values import DataError
from tests.run.small import ran

DRAWN = similis.open_data("synthetic?classes=12&images=6&size=16")
ROWS = 72


def write(path, items):
    with tarfile.open(path, "w") as archive:
        for name, data in items:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def shards(folder, kind):
    names, labels = DRAWN.values("class_name"), DRAWN.labels.tolist()
    for number in range(2):
        items = []
        for row in range(number, ROWS, 2):
            key = f"{names[row]}/{row:04d}" if kind == "folder" else f"{row:04d}"
            items.append((f"{key}.ppm", DRAWN.read_bytes(row)))
            if kind == "cls":
                items.append((f"{key}.cls", str(labels[row]).encode()))
            if kind == "json":
                items.append((f"{key}.json", json.dumps({"class_name": names[row]}).encode()))
        write(folder / f"shard-{number}.tar", items)
    return folder


@pytest.mark.parametrize("kind", ["cls", "json", "folder"])
def test_every_item_is_there_with_its_class_and_bytes(tmp_path, kind):
    data = similis.open_data(shards(tmp_path, kind))
    rows = [*range(0, ROWS, 2), *range(1, ROWS, 2)]
    assert [data.read_bytes(place) for place in range(ROWS)] == [DRAWN.read_bytes(row) for row in rows]
    names = DRAWN.labels.tolist() if kind == "cls" else DRAWN.values("class_name")
    assert data.values("class_name") == [str(names[row]) for row in rows]
    assert len(set(data.labels.tolist())) == 12
    assert len(similis.open_data(tmp_path / "shard-1.tar")) == ROWS // 2


def test_a_run_takes_them(tmp_path):
    (tmp_path / "shards").mkdir()
    result = ran(tmp_path / "runs", data__source=str(shards(tmp_path / "shards", "cls")))
    assert 0 <= result.test["recall@1"] <= 1


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([("1.ppm", b"x")], "has no class; add 1.cls"),
        ([("1.ppm", b"x"), ("1.json", b"{")], "is no JSON"),
        ([("1.cls", b"3")], "holds no image"),
    ],
)
def test_what_is_wrong_in_a_shard_is_told(tmp_path, items, message):
    write(tmp_path / "one.tar", items)
    with pytest.raises(DataError, match=message):
        similis.open_data(tmp_path / "one.tar")


def test_half_a_shard_and_no_shard(tmp_path):
    (tmp_path / "one.tar").write_bytes(b"not a tar file at all")
    with pytest.raises(DataError, match="no uncompressed tar file"):
        similis.open_data(tmp_path / "one.tar")
