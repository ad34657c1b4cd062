"""Checks: every kind of trouble is found, and nothing else."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from similis.data.check import check_data
from similis.data.open_data import open_data
from similis.data.splits import split_data
from similis.values import DataError
from tests.data.pictures import picture, write, write_zip


def kinds(tmp_path, **more):
    found = check_data(open_data(str(write(tmp_path, FILES | more))))
    return [(finding.kind, finding.severity) for finding in found], found


CLASSES = ("train/cat", "train/cow", "test/dog", "test/fox")
FILES = {f"{name}/{n}.png": picture(2 * seed + n - 1) for seed, name in enumerate(CLASSES) for n in (1, 2)}


def test_good_data_has_no_findings(tmp_path):
    assert kinds(tmp_path)[0] == []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"train/cat/3.png": b"not an image"}, [("unreadable", "error")]),
        ({"train/cat/3.png": picture(77)[:-40]}, [("unreadable", "error")]),
        ({"train/cat/3.png": b""}, [("unreadable", "error")]),
        ({"train/eel/1.png": picture(77)}, [("tiny-class", "warning")]),
        ({"train/cat/3.png": FILES["test/dog/1.png"]}, [("leak", "error")]),
        ({"train/cat/3.png": FILES["train/cat/1.png"]}, [("duplicate", "warning")]),
        ({"train/eel/1.png": FILES["train/cat/1.png"], "train/eel/2.png": picture(8)}, [("duplicate", "error")]),
        ({"test/cat/9.png": picture(77)}, [("class-overlap", "error")]),
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
    assert [finding.kind for finding in check_data(manifest, smallest_class=3)] == ["tiny-class"] * 4


def test_classes_in_both_folders_are_told_what_to_do_with_folders(tmp_path):
    found = kinds(tmp_path, **{"test/cat/9.png": picture(70)})[1]
    assert "merge the folders train and test" in found[0].remedy
    assert "column" not in found[0].remedy
    with pytest.raises(DataError, match="merge the folders train and test"):
        split_data(open_data(str(tmp_path)))


def test_classes_in_both_parts_of_a_table_are_told_what_to_do_with_its_column(tmp_path):
    lines = [f"{path},{path.split('/')[1]},{part}" for path, part in zip(FILES, ["train", "test"] * 4, strict=True)]
    write(tmp_path, FILES | {"list.csv": "\n".join(["path,label,split", *lines]).encode()})
    manifest = open_data(str(tmp_path / "list.csv"))
    assert "drop the column 'split'" in check_data(manifest)[0].remedy
    with pytest.raises(DataError, match=r"4 classes of .* drop the column 'split'"):
        split_data(manifest)


def test_folders_without_images_are_named(tmp_path):
    for folder in ("train/eel", "train/cat/old", "test/bee/nested/deep", ".git/refs"):
        (tmp_path / folder).mkdir(parents=True)
    write(tmp_path, {"train/owl/photo.heic": b"heic", "train/cat/old/notes.txt": b"text"})
    got, found = kinds(tmp_path)
    assert got == [("empty-class", "warning")]
    assert "4 folders hold no image" in found[0].message
    assert "'test/bee', 'train/cat/old', 'train/eel'" in found[0].message
    assert ".jpg" in found[0].remedy


def test_folders_without_images_in_an_archive_are_named(tmp_path):
    place = write_zip(tmp_path / "photos.zip", {**FILES, "train/eel/": b""})
    assert [finding.kind for finding in check_data(open_data(place))] == ["empty-class"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"cat/1.png": picture(1), "cat/2.png": picture(2)}, "all images are of one class, 'cat'"),
        ({"train/cat/1.png": picture(1), "train/cat/2.png": picture(2), "test/a/1.png": picture(3),
          "test/a/2.png": picture(4), "test/b/1.png": picture(5), "test/b/2.png": picture(6)},
         "all images of the part 'train' are of one class, 'cat'"),
    ],
)  # fmt: skip
def test_one_class_is_an_error(tmp_path, files, message):
    manifest = open_data(str(write(tmp_path, files)))
    (found,) = check_data(manifest)
    assert (found.kind, found.severity, found.message) == ("one-class", "error", message)
    with pytest.raises(DataError, match="class"):
        split_data(manifest)


def test_vectors_are_checked_too(tmp_path):
    names = ["a", "a", "b", "b"]
    for value, expected in ((0.5, []), (float("nan"), ["unreadable"])):
        vectors = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, value]]
        pq.write_table(pa.table({"vector": vectors, "class_name": names}), tmp_path / "v.parquet")
        assert [finding.kind for finding in check_data(open_data(str(tmp_path / "v.parquet")))] == expected
