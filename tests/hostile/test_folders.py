"""Folders that a user may really have: links, pipes, odd names, files that are cut short or of the wrong kind."""

import os
import threading
from pathlib import Path

import pytest

from similis.data.open_data import open_data
from similis.data.sources import LARGEST
from similis.values import DataError, UserError
from tests.data.pictures import picture, write
from tests.hostile.refusals import check_refused, check_sentence, read_data
from tests.hostile.test_images import claiming

FILES = {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(6) for n in range(3)}


@pytest.fixture
def photos(tmp_path):
    return write(tmp_path / "photos", FILES)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"<html>404</html>", "not an image of a known format"),
        (picture(9)[:100], "damaged or cut short"),
        (picture(9, form="JPEG")[:-200], "damaged or cut short"),
        (claiming("PNG", 30_000, 30_000), "decompression bomb"),
        (picture(9, width=1, height=60000), "crop it"),
    ],
    ids=["empty", "html", "cut-png", "cut-jpeg", "bomb", "narrow"],
)
def test_broken_files(photos, tmp_path, capsys, content, words):
    write(photos, {f"kind{c}/broken.png": content for c in range(6)})  # in all parts, so that training meets it
    check_refused(capsys, tmp_path, photos, words)


def test_a_link_that_points_nowhere(photos, tmp_path, capsys):
    (photos / "kind0/gone.png").symlink_to(tmp_path / "nothing.png")
    check_refused(capsys, tmp_path, photos, "1 of 19 images")
    with pytest.raises(DataError, match=r"'kind0/gone\.png' \(a link to a file that does not exist\)"):
        open_data(str(photos))
    (photos / "kind0/gone.png").rename(photos / "kind0/notes.txt")  # what is no image does not matter
    assert len(open_data(str(photos))) == len(FILES)


def test_a_link_to_itself(photos, tmp_path, capsys):
    (photos / "kind0/self.png").symlink_to("self.png")
    check_refused(capsys, tmp_path, photos, "Too many levels of symbolic links")


def test_a_linked_folder_is_followed_and_a_loop_is_refused(photos, tmp_path, capsys):
    write(tmp_path / "other", {"1.png": picture(77), "2.png": picture(78)})
    (photos / "linked").symlink_to(tmp_path / "other")
    assert len(open_data(str(photos))) == len(FILES) + 2
    (photos / "kind0/up").symlink_to(photos)
    check_refused(capsys, tmp_path, photos, "'kind0/up' is a link to a folder that it lies in; remove the link")


def test_folders_that_link_to_each_other(tmp_path):
    write(tmp_path, {"photos/a/1.png": picture(1), "other/b/2.png": picture(2)})
    (tmp_path / "photos/a/there").symlink_to(tmp_path / "other")
    (tmp_path / "other/b/back").symlink_to(tmp_path / "photos/a")
    with pytest.raises(DataError, match="remove the link"):
        open_data(str(tmp_path / "photos"))


def test_a_link_beside_its_target_is_no_loop(tmp_path):
    write(tmp_path, {"a/1.png": picture(1), "a/2.png": picture(2)})
    (tmp_path / "b").symlink_to("a")
    assert open_data(str(tmp_path)).class_names == ["a", "b"]


def rename_to_bytes(path: Path, name: bytes) -> None:
    try:
        path.rename(path.parent / os.fsdecode(name))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")


@pytest.mark.parametrize("path", ["kind0/0.png", "kind0"])
def test_names_that_are_not_utf8(photos, tmp_path, capsys, path):
    rename_to_bytes(photos / path, b"caf\xe9.png")
    check_refused(capsys, tmp_path, photos, "not UTF-8")
    with pytest.raises(DataError, match=r"the first is '.*caf\\udce9\.png.*rename"):
        open_data(str(photos))


def test_a_root_that_is_not_utf8(photos, tmp_path, capsys):
    rename_to_bytes(photos, b"caf\xe9")
    place = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    with pytest.raises(UserError, match="not UTF-8"):
        open_data(place)
    check_refused(capsys, tmp_path, place, "UTF-8")


def test_a_pipe_is_not_read(photos, tmp_path, capsys):
    os.mkfifo(photos / "kind0/pipe.png")
    end = os.open(photos / "kind0/pipe.png", os.O_RDWR)  # whoever reads waits for us, at most so long
    closing = threading.Timer(30, os.close, [end])
    closing.start()
    check_refused(capsys, tmp_path, photos, "a folder, a pipe or a device, not a file")
    closing.cancel()


def test_a_folder_named_like_an_image_is_a_class(photos):
    write(photos / "kind0.png", {"1.png": picture(55), "2.png": picture(56)})
    assert "kind0.png" in open_data(str(photos)).class_names


def test_a_file_too_large_for_an_image_is_not_read(photos):
    with (photos / "kind0/large.png").open("wb") as file:
        file.truncate(LARGEST + 1)  # a hole: no bytes on the disk
    assert f"at most {LARGEST}" in read_data(photos)


def test_folders_nested_deeper_than_a_path_can_name(photos, tmp_path):
    at = os.open(photos, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("x" * 200, dir_fd=at)
        below = os.open("x" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert "cannot be read (File name too long)" in read_data(photos)


@pytest.mark.parametrize("place", ["x\0y", "x" * 5000, "/dev/null", "photos.tar", "nothing/at/all", "s3q://bucket/x"])
def test_places_that_are_no_data(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos.tar").write_bytes(b"tar")
    with pytest.raises((DataError, UserError)) as error:
        open_data(place)
    check_sentence(error.value)
