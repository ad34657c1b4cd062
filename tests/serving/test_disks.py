"""Full and read-only disks, and errors of write, fsync and rename: nothing acknowledged is lost, nothing half."""

import shutil
import subprocess

import pytest

from tests.cli.test_main import ended
from tests.hostile.test_disks import disk, remount  # noqa: F401 - a fixture
from tests.serving.running import PHOTOS, Server, photo


def top(server, number):
    return server.form("/v1/search", {"file": photo(number)}, k=1).json()["hits"][0]["id"]


def test_a_full_disk_is_507_and_changes_nothing(disk, saved):  # noqa: F811
    remount(disk, "size=1m")
    with Server(saved, store=str(disk / "c.sqlite")) as server:
        number, answer = 0, None
        while answer is None or answer.status_code == 201:
            assert number < 2000
            number += 1
            answer = server.enrol(photo(100 + number), f"n{number}")
        assert answer.status_code == 507
        assert "disk is full" in answer.json()["error"]
        kept = {*PHOTOS, *(f"n{n}" for n in range(1, number))}
        assert server.listed().keys() == kept
        assert top(server, 100 + number) != f"n{number}"  # neither on the disk nor in memory
        remount(disk, "size=8m")
        assert server.enrol(photo(100 + number), f"n{number}").status_code == 201
        assert top(server, 100 + number) == f"n{number}"
    with Server(saved, store=str(disk / "c.sqlite")) as server:
        assert server.listed().keys() == {*kept, f"n{number}"}


def test_a_disk_that_is_full_at_the_start_is_one_sentence(disk, saved, capsys):  # noqa: F811
    assert ended(["serve", str(saved), "--port", "0", "--store", str(disk / "c.sqlite")]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "full" in said
    remount(disk, "size=8m")
    with Server(saved, store=str(disk / "c.sqlite")) as server:  # what is left of it is no hindrance
        assert server.listed().keys() == PHOTOS.keys()


@pytest.mark.parametrize("has_store", [False, True], ids=["new", "old"])
def test_a_read_only_file_system_is_served(disk, saved, has_store):  # noqa: F811
    remount(disk, "size=20m")
    place = shutil.copytree(saved, disk / "model")
    more = set()
    if has_store:
        with Server(place) as server:
            assert server.enrol(photo(77), "more").status_code == 201
            more = {"more"}
    remount(disk, "ro")
    with Server(place) as server:
        answer = server.enrol(photo(78), "other")
        assert answer.status_code == 503
        assert "no changes" in answer.json()["error"]
        assert not server.get("/v1/model").json()["writable"]
        assert server.listed().keys() == {*PHOTOS, *more}
        assert server.get("/v1/thumbnail", id="kind0/0.png").status_code == 200
        assert server.form("/v1/search", {"file": photo(78)}).status_code == 200


def test_read_only_by_choice(folder):
    with Server(folder, read_only=True) as server:
        answer = server.enrol(photo(78), "other")
        assert answer.status_code == 403
        assert "--read-only" in answer.json()["error"]
        assert server.ask("DELETE", "/v1/labels?label=kind0", key="wrong").status_code == 401  # the key comes first
        assert server.listed().keys() == PHOTOS.keys()
    assert not list(folder.glob("collection*"))


def test_a_collection_of_another_model_is_refused(folder, tmp_path, capsys):
    from similis.model.load import pretrained

    with Server(folder):
        pass
    other = pretrained("small_conv", weights=None, size=24).save(tmp_path / "other")
    assert ended(["serve", str(other), "--port", "0", "--store", str(folder / "collection.sqlite")]) == 1
    said = capsys.readouterr().err
    assert "cannot be compared" in said
    assert "--store" in said


@pytest.mark.parametrize("contents", [b"", b"no database", b"SQLite format 3\0" + bytes(5000)])
def test_a_file_that_is_no_collection(folder, tmp_path, contents, capsys):
    (tmp_path / "c.sqlite").write_bytes(contents)
    if not contents:  # an empty file is what a killed server may leave: it is filled
        with Server(folder, store=str(tmp_path / "c.sqlite")) as server:
            assert server.listed().keys() == PHOTOS.keys()
        return
    assert ended(["serve", str(folder), "--port", "0", "--store", str(tmp_path / "c.sqlite")]) == 1
    assert "c.sqlite" in capsys.readouterr().err
    assert (tmp_path / "c.sqlite").read_bytes() == contents


# What SQLite calls in WAL mode; it renames nothing, so that an error of rename must not be seen.
FAULTS = {"posix/io/rw/pwrite": True, "posix/io/sync/*": True, "posix/io/dir/rename": False}


@pytest.mark.skipif(shutil.which("fiu-run") is None, reason="fiu-run is not installed (Debian: fiu-utils)")
@pytest.mark.parametrize("fault", FAULTS)
def test_injected_errors(folder, fault, tmp_path):
    """Errors of the system calls below SQLite, switched on while the server runs."""
    control = tmp_path / "fiu"
    with Server(folder, around=["fiu-run", "-x", "-f", str(control)]) as server:
        assert server.enrol(photo(60), "before").status_code == 201
        (pipe,) = (path for path in tmp_path.glob("fiu-*.in"))
        identity = pipe.name.removeprefix("fiu-").removesuffix(".in")
        call = ["fiu-ctrl", "-f", str(control)]
        subprocess.run([*call, "-c", f"enable_random name={fault},probability=0.3", identity], check=True, timeout=60)
        acknowledged, refused = {"before"}, set()
        for number in range(30):
            answer = server.enrol(photo(100 + number), f"n{number}")
            assert answer.status_code in (201, 503, 507), answer.text
            (acknowledged if answer.status_code == 201 else refused).add(f"n{number}")
        subprocess.run([*call, "-c", f"disable name={fault}", identity], check=True, timeout=60)
        assert bool(refused) == FAULTS[fault]
        listed = server.listed().keys()
        assert listed == {*PHOTOS, *acknowledged}
        assert server.enrol(photo(61), "after").status_code == 201  # it has recovered
        before = server.form("/v1/search", {"file": photo(60)}, k=60).json()["hits"]
    with Server(folder) as server:
        there = server.listed().keys()
        assert {*PHOTOS, *acknowledged, "after"} <= there <= {*PHOTOS, *acknowledged, *refused, "after"}
        again = server.form("/v1/search", {"file": photo(60)}, k=60).json()["hits"]
        assert [hit for hit in again if hit["id"] not in refused] == before
