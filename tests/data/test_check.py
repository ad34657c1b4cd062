"""Checks: every kind of trouble is found, and nothing else."""

from __future__ import annotations

import pytest

from similis.data.check import check_data
from similis.data.opening import open_data
from tests.data.pictures import picture, write


def kinds(tmp_path, **more):
    found = check_data(open_data(str(write(tmp_path, FILES | more))))
    return [(finding.kind, finding.severity) for finding in found], found


FILES = {
    f"{part}/{name}/{n}.png": picture(seed)
    for seed, (part, name, n) in enumerate(
        [("train", "cat", 1), ("train", "cat", 2), ("test", "dog", 1), ("test", "dog", 2)]
    )
}


def test_good_data_has_no_findings(tmp_path):
    assert kinds(tmp_path)[0] == []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"train/cat/3.png": b"not an image"}, [("unreadable", "error")]),
        ({"train/cat/3.png": picture(7)[:-40]}, [("unreadable", "error")]),
        ({"train/cat/3.png": b""}, [("unreadable", "error")]),
        ({"train/eel/1.png": picture(7)}, [("tiny-class", "warning")]),
        ({"train/cat/3.png": FILES["test/dog/1.png"]}, [("leak", "error")]),
        ({"train/cat/3.png": FILES["train/cat/1.png"]}, [("duplicate", "warning")]),
        ({"train/eel/1.png": FILES["train/cat/1.png"], "train/eel/2.png": picture(8)}, [("duplicate", "error")]),
        ({"test/cat/9.png": picture(7)}, [("class-overlap", "error")]),
    ],
)
def test_trouble_is_found(tmp_path, files, expected):
    got, found = kinds(tmp_path, **files)
    assert got == expected
    new = min(files)
    rows = open_data(str(tmp_path)).values("path")
    assert rows.index(new) in found[0].rows
    assert found[0].message
    assert found[0].remedy


def test_smallest_class_is_a_choice(tmp_path):
    manifest = open_data(str(write(tmp_path, FILES)))
    assert [finding.kind for finding in check_data(manifest, smallest_class=3)] == ["tiny-class"] * 2
