"""A save that fails or is killed leaves the old model or the new one; an index deletes only what is its own."""

import errno
import multiprocessing
import os
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import similis
from similis.model.bundle_files import ABOUT, LOCK, WEIGHTS, WHOLE
from similis.training.file_lock import hold_lock
from similis.values import DataError, UserError
from tests.data.pictures import picture

STEPS = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir")  # audit events that change a folder


def build(count: int):
    """A small model with so many images, of which the second half has another gallery and no thumbnails."""
    model = similis.pretrained("small_conv", weights=None, size=16, device="cpu")
    model.add(
        [picture(n) for n in range(count)], labels=[str(n % 3) for n in range(count)], ids=list(map(str, range(count)))
    )
    return model


@pytest.fixture(scope="module")
def models():
    return build(6), build(9)


def save_until(model, folder: Path, step: int, thumbnails) -> None:
    """Save, and die without farewell at the n-th step that touches the folder."""
    torch.set_num_threads(1)
    done = [0]

    def watch(event: str, given: tuple) -> None:
        if event in STEPS and given and str(folder) in str(given[0]):
            done[0] += 1
            if done[0] > step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    model.save(folder, thumbnails=thumbnails)
    os._exit(0)


def killed(model, folder: Path, step: int, thumbnails=None) -> bool:
    """Whether a save in a process of its own was killed at that step."""
    process = multiprocessing.get_context("fork").Process(target=save_until, args=(model, folder, step, thumbnails))
    process.start()
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


STRIDES = [9, pytest.param(1, marks=pytest.mark.slow)]  # every step in the long proofs


@pytest.mark.parametrize("stride", STRIDES)
def test_a_save_that_is_killed_at_any_step_leaves_the_old_model_or_the_new_one(models, tmp_path, stride):
    new, old = models
    sound = old.save(tmp_path / "sound", thumbnails={"1": b"jpeg"}, onnx=b"onnx")
    (sound / "collection.sqlite").write_bytes(b"of a server")
    seen, step = set(), 0
    while True:
        folder = Path(shutil.copytree(sound, tmp_path / f"at-{step}"))
        was_killed = killed(new, folder, step)
        found = similis.load(folder, device="cpu")
        seen.add(len(found.gallery))
        assert len(found.gallery) in (len(old.gallery), len(new.gallery))
        assert found.search(picture(2), 3) == (old if len(found.gallery) == len(old.gallery) else new).search(
            picture(2), 3
        )
        assert (folder / "model.onnx").exists() == (len(found.gallery) == len(old.gallery))
        assert (folder / "collection.sqlite").read_bytes() == b"of a server"
        if step % 3 == 0:  # the next save works, and leaves nothing of the killed one
            similis.load(new.save(folder), device="cpu")
            assert [file.name for file in folder.iterdir() if file.name.startswith(".")] == [LOCK]
        if not was_killed:
            break
        step += stride
    assert step > 10
    assert seen == {len(old.gallery), len(new.gallery)}


@pytest.mark.parametrize("stride", STRIDES)
def test_a_first_save_that_is_killed_leaves_nothing_or_a_model(models, tmp_path, stride):
    step, kinds = 0, set()
    while True:
        was_killed = killed(models[0], tmp_path / f"at-{step}", step)
        try:
            kinds.add(len(similis.load(tmp_path / f"at-{step}", device="cpu").gallery))
        except similis.UserError:  # no model is there
            kinds.add("nothing")
        if not was_killed:
            break
        step += stride
    assert kinds == {"nothing", 6}


def test_a_save_that_fails_leaves_the_old_model(models, tmp_path, monkeypatch):
    folder = models[0].save(tmp_path / "model")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    spoilt = models[1].gallery.contents().vectors
    kept = spoilt[3].clone()
    spoilt[3] = float("nan")
    try:
        with pytest.raises(similis.SimilisError, match="not finite"):
            models[1].save(folder)
    finally:
        spoilt[3] = kept
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_link_in_the_place_of_a_finished_save_is_not_followed(models, tmp_path):
    folder, other = models[0].save(tmp_path / "model"), tmp_path / "other"
    other.mkdir()
    (other / "README.md").write_text("mine")
    (folder / WHOLE).symlink_to(other)
    similis.load(folder, device="cpu")
    assert (other / "README.md").read_text() == "mine"


def test_a_finished_save_in_a_folder_that_cannot_be_written_says_so(models, tmp_path, monkeypatch):
    folder = models[0].save(tmp_path / "model")
    (folder / WHOLE).mkdir()
    shutil.copy(folder / ABOUT, folder / WHOLE / ABOUT)

    def refuse(self, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(DataError, match="make its folder writable"):
        similis.load(folder, device="cpu")


def test_only_the_index_that_was_there_is_replaced(tmp_path):
    (tmp_path / "my-own.vectors").write_bytes(b"precious")
    similis.save_index(similis.build_index(torch.eye(3)), tmp_path)
    similis.save_index(similis.build_index(torch.eye(4)), tmp_path)
    assert (tmp_path / "my-own.vectors").read_bytes() == b"precious"
    assert len(list(tmp_path.glob("*.vectors"))) == 2
    assert len(similis.load_index(tmp_path)) == 4


def test_an_index_that_names_a_file_elsewhere_deletes_nothing_there(tmp_path):
    place, outside = tmp_path / "index", tmp_path / WEIGHTS
    outside.write_bytes(b"precious")
    similis.save_index(similis.build_index(torch.eye(3)), place)
    text = (place / "index.json").read_text()
    own = next(place.glob("*.vectors")).name
    (place / "index.json").write_text(text.replace(own, f"../{WEIGHTS}"))
    similis.save_index(similis.build_index(torch.eye(4)), place)
    assert outside.read_bytes() == b"precious"
    assert len(similis.load_index(place)) == 4


def test_several_threads_save_one_folder(models, tmp_path):
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda n: models[n % 2].save(tmp_path / "model"), range(9)))
    assert len(similis.load(tmp_path / "model", device="cpu").gallery) in (6, 9)


def save_often(models, folder: Path, count: int) -> None:
    torch.set_num_threads(1)
    for number in range(count):
        models[number % 2].save(folder)
    os._exit(0)


def test_a_reader_meets_the_old_model_or_the_new_one_while_another_process_saves(models, tmp_path):
    folder = models[0].save(tmp_path / "model")
    process = multiprocessing.get_context("fork").Process(target=save_often, args=(models, folder, 25))
    process.start()
    seen = set()
    while process.is_alive():
        seen.add(len(similis.load(folder, device="cpu").gallery))
    process.join()
    assert process.exitcode == 0
    assert seen <= {6, 9}


def test_a_reader_waits_while_another_moves_files(models, tmp_path):
    folder = models[0].save(tmp_path / "model")
    models[1].save(tmp_path / "new").rename(folder / WHOLE)
    with ThreadPoolExecutor(1) as pool:
        with hold_lock(folder / LOCK):
            found = pool.submit(similis.load, folder, device="cpu")
            with pytest.raises(TimeoutError):
                found.result(0.5)
        assert len(found.result().gallery) == 9


def test_a_lock_that_another_user_has_made_can_be_held(tmp_path, monkeypatch):
    """Root may write everything, so the refusal of the system is made here."""
    (tmp_path / ".lock").touch()
    opened = os.open

    def refuse(path, flags, mode=0o777):
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    with (
        hold_lock(tmp_path / ".lock"),
        pytest.raises(UserError, match="held"),
        hold_lock(tmp_path / ".lock", busy="held"),
    ):
        pass
    with pytest.raises(PermissionError), hold_lock(tmp_path / "other"):
        pass
