"""Names of runs, the address inside, and paths that hold from any folder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from similis.run.finished import finished
from similis.run.places import claim_run, find_run, with_whole_paths
from similis.values import DataError
from tests.data.pictures import picture, write
from tests.run.small import ran, small


@pytest.fixture
def photos(tmp_path, monkeypatch):
    write(tmp_path / "My photos", {f"kind{c:02}/{n}.png": picture(10 * c + n) for c in range(12) for n in range(6)})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_runs_are_called_by_their_data_and_found_by_their_address(photos):
    first = ran(Path("runs"), data__source="My photos", training__epochs=0)
    second = ran(Path("runs"), data__source="My photos", training__epochs=0, seed=1)
    assert [each.folder.name for each in (first, second)] == ["my-photos-1", "my-photos-2"]
    assert ran(Path("runs"), data__source="My photos", training__epochs=0).folder == first.folder
    first.folder.rename("runs/best")
    again = ran(Path("runs"), data__source="My photos", training__epochs=0)
    assert (again.folder, again.address) == (Path("runs/best"), first.address)
    assert finished(Path("runs/best")).test == first.test


def test_paths_hold_from_any_folder_and_do_not_decide_the_address(photos, monkeypatch):
    first = ran(photos / "runs", data__source="My photos", training__epochs=0)
    (photos / "elsewhere").mkdir()
    monkeypatch.chdir(photos / "elsewhere")
    assert finished(first.folder).spec.data.source == str(photos / "My photos")
    (photos / "My photos").rename(photos / "moved")
    assert ran(photos / "runs", data__source="../moved", training__epochs=0).folder == first.folder


def test_known_data_and_missing_files_stay_as_they_are(photos):
    (photos / "pretrained").mkdir()
    spec = small(data__source="synthetic?classes=9", model__weights="pretrained", objective__language="gone.npz")
    assert with_whole_paths(spec) == spec


def test_a_run_that_is_refused_leaves_nothing(photos):
    with pytest.raises(DataError):
        ran(photos / "runs", data__source="nowhere/")
    assert not (photos / "runs").exists()


def test_many_processes_that_begin_one_run_share_its_folder(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: claim_run(tmp_path, "x", "same", None).path, range(16)))
        others = list(pool.map(lambda n: claim_run(tmp_path, "x", str(n), None).path, range(16)))
    assert set(found) == {find_run(tmp_path, "same")}
    assert len(set(others)) == 16
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in [*found, *others]}
