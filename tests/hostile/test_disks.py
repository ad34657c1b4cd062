"""Full and read-only disks, real ones: one sentence each, and the same bits once there is room."""

import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.test_main import ended
from tests.hostile import run_place
from tests.hostile.run_place import make_place, search
from tests.run.small import folder_in, remains


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Photos, a specification, a picture to search with, and a finished run."""
    root = make_place(tmp_path_factory.mktemp("disks"))
    assert ended(train(root, root / "sound")) == 0
    return root


@pytest.fixture
def disk() -> Iterator[Path]:
    """A file system of its own in memory, 32 KiB large."""
    mounted = Path(tempfile.mkdtemp(prefix="similis-disk-"))  # not below pytest's folders, which it clears itself
    words = ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(mounted)]
    if shutil.which("mount") is None or subprocess.run(words, check=False, capture_output=True).returncode:
        mounted.rmdir()
        pytest.skip("this user may not mount a file system")
    yield mounted
    subprocess.run(["umount", "--lazy", mounted], check=True)
    mounted.rmdir()


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file of this process grows beyond a size: the kernel refuses the write, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def train(place: Path, runs: Path) -> list[str]:
    return [*run_place.train(place, runs), "--no-pictures"]


def sentence(capsys) -> str:
    """The one line that a failed command prints."""
    error = capsys.readouterr().err
    assert error.startswith("similis: ")
    assert error.count("\n") == 1
    return error


def table(text: str) -> str:
    return text[text.index("network  ") : text.index("next")]


@pytest.mark.slow
def test_a_disk_that_grows_from_full_to_large_enough(disk, place, capsys):
    """Each time the run gets a little further; it ends with the bits of a run that had room from the beginning."""
    sentences, size = [], 32
    while ended(train(place, disk / "runs")):
        sentences.append(sentence(capsys))
        assert not list(disk.rglob(".*safetensors*"))  # halves would only take more room
        size += 200  # a step smaller than any file of weights
        assert size < 20_000
        remount(disk, f"size={size}k")
    assert len(sentences) > 4
    assert all("No space left on device" in said and "free space" in said for said in sentences)
    assert len({said.split(" (")[0] for said in sentences}) > 1  # at the checkpoint and at the best weights, at least
    assert remains(folder_in(disk / "runs")) == remains(folder_in(place / "sound"))


def test_files_that_may_not_grow(place, tmp_path, capsys):
    sentences = []
    for size in (500, 3_000, 100_000, 600_000, 10**8):
        with files_up_to(size):
            code = ended(train(place, tmp_path / "runs"))
        if not code:
            break
        sentences.append(sentence(capsys))
    assert len(sentences) > 2
    assert all("File too large" in said and "free space" in said for said in sentences)
    assert remains(folder_in(tmp_path / "runs")) == remains(folder_in(place / "sound"))


def test_a_finished_run_on_a_read_only_disk_is_read_and_searched(disk, place, capsys):
    remount(disk, "size=20m")
    assert ended(train(place, disk / "runs")) == 0
    (folder_in(disk / "runs") / ".lock").touch()  # what cannot be tidied up
    said = capsys.readouterr().out
    remount(disk, "ro")
    assert ended(train(place, disk / "runs")) == 0
    assert table(capsys.readouterr().out) == table(said)
    assert ended(search(place, folder_in(disk / "runs"))) == 0  # the gallery is embedded, and not kept
    assert "kind" in capsys.readouterr().out


def test_a_new_run_on_a_read_only_disk_is_one_sentence(disk, place, capsys):
    remount(disk, "ro")
    assert ended(train(place, disk / "runs")) == 1
    said = sentence(capsys)
    assert "Read-only file system" in said
    assert "choose another one" in said


@pytest.mark.parametrize("below", ["", "inside"])
def test_a_folder_of_runs_that_is_a_file_is_one_sentence(below, place, tmp_path, capsys):
    (tmp_path / "file").write_text("kept")
    assert ended(train(place, tmp_path / "file" / below)) == 1
    said = sentence(capsys)
    assert f"cannot write {tmp_path / 'file'}" in said
    assert "choose another one" in said
    assert (tmp_path / "file").read_text() == "kept"


def test_a_sheet_that_cannot_be_written_is_one_sentence(place, tmp_path, capsys):
    (tmp_path / "file").touch()
    words = [*search(place, folder_in(place / "sound"))[:-1], str(tmp_path / "file" / "sheet.png")]
    assert ended(words) == 1
    assert "cannot write" in sentence(capsys)
