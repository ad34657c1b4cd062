"""Names of runs, the address inside, and paths that hold from any folder."""

from __future__ import annotations

import csv
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from similis.data.open_data import open_data
from similis.model.finished import finished
from similis.run.machine import Watch
from similis.run.places import claim_run, find_run, with_whole_paths
from similis.values import UserError
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


def test_a_run_that_fails_before_a_checkpoint_leaves_nothing(photos):
    with pytest.raises(UserError, match="gem learns"):
        ran(photos / "runs", data__source="My photos", model__trains="head", model__pooling="gem")
    assert [path.name for path in (photos / "runs").iterdir()] == [".lock"]


def test_a_run_that_fails_later_keeps_what_it_can_resume_from(photos):
    class Failure(Watch):
        def on_step(self, report, mined):
            if report.progress.step == 2:
                raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        ran(photos / "runs", Failure(), data__source="My photos")
    assert (photos / "runs" / "my-photos-1" / "checkpoint-select.safetensors").exists()
    assert ran(photos / "runs", data__source="My photos").folder.name == "my-photos-1"


def test_files_of_a_run_have_the_mode_of_the_umask(photos):
    before = os.umask(0o027)
    try:
        folder = ran(photos / "runs", data__source="My photos", training__epochs=1).folder
    finally:
        os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in folder.iterdir() if path.is_file()}
    assert set(modes) > {"model.safetensors", "embeddings.safetensors", "result.json"}
    assert set(modes.values()) == {"0o640"}


def test_vectors_have_names_beside_them(photos):
    result = ran(photos / "runs", data__source="My photos", training__epochs=0)
    with (result.folder / "embeddings.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    data, ids = open_data("My photos"), result.embeddings()["ids"].tolist()
    assert [int(row["row"]) for row in table] == ids
    assert [row["path"] for row in table] == [data.values("path")[row] for row in ids]
    assert all(row["path"].startswith(f"{row['class_name']}/") for row in table)


def test_many_processes_that_begin_one_run_share_its_folder(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: claim_run(tmp_path, "x", "same", None).path, range(16)))
        others = list(pool.map(lambda n: claim_run(tmp_path, "x", str(n), None).path, range(16)))
    assert set(found) == {find_run(tmp_path, "same")}
    assert len(set(others)) == 16
    assert {path.name for path in tmp_path.iterdir()} == {".lock", *(path.name for path in [*found, *others])}
