"""Kill -9 at any moment: what a resumed run ends with is, to the bit, what an uninterrupted one ends with."""

import random
import time
from pathlib import Path

import pytest

from tests.run.small import folder_in, kill_at, remains, started

# A miner with draws and a memory, so that every kind of state is in the checkpoints.
CHANGES = {
    "training__epochs": 4, "training__average_decay": 0.9, "objective__loss": "multi_similarity",
    "objective__miner": "multi_similarity", "objective__memory": 20,
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What an uninterrupted run leaves."""
    return finish(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def seconds(whole, tmp_path_factory):
    """How long such a run takes, after the first, which waits for the server's imports."""
    begun = time.perf_counter()
    finish(tmp_path_factory.mktemp("timed"))
    return time.perf_counter() - begun


def finish(root: Path) -> dict[str, object]:
    process = started(root, CHANGES)
    process.join()
    assert process.exitcode == 0
    return remains(folder_in(root))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_twenty_kills_leave_no_trace(whole, seconds, tmp_path):
    """Children are killed at random moments until so many were killed at work; each run that ends is compared."""
    chance, killed, place = random.Random(2), 0, tmp_path / "0"
    while killed < 20:
        process = started(place, CHANGES)
        process.join(timeout=chance.uniform(0.02, 0.6) * seconds)
        if process.is_alive():
            process.kill()
            process.join()
            killed += 1
            continue
        assert process.exitcode == 0
        assert remains(folder_in(place)) == whole
        place = tmp_path / str(killed)
    assert finish(place) == whole


OTHERS = (("step", 1), ("validation", 1), ("validation", 4))


@pytest.mark.parametrize(
    ("moment", "number"), [("step", 3), *(pytest.param(*each, marks=pytest.mark.slow) for each in OTHERS)]
)
def test_killed_after_a_step_before_its_checkpoint_or_after_a_validation(whole, tmp_path, moment, number):
    kill_at(tmp_path, CHANGES, moment, number)
    assert finish(tmp_path) == whole


# Names with a dot are folders about to get their own names; they vanish while one looks into them.
def half_checkpoint(root: Path) -> bool:
    return any(root.glob("[!.]*/.checkpoint-*"))


def opened_test(root: Path) -> bool:
    return any("opened" in path.read_text() for path in root.glob("[!.]*/metrics.jsonl"))


def refitting(root: Path) -> bool:
    return any(root.glob("[!.]*/checkpoint-refit*"))


@pytest.mark.parametrize(
    "moment", [pytest.param(each, marks=pytest.mark.slow) for each in (half_checkpoint, refitting, opened_test)]
)
def test_killed_while_a_checkpoint_is_written_in_the_refit_and_in_the_evaluation(whole, tmp_path, moment):
    process = started(tmp_path, CHANGES)
    while process.is_alive() and not moment(tmp_path):
        time.sleep(0.0005)
    process.kill()
    process.join()
    assert finish(tmp_path) == whole
    if process.exitcode == 0:
        pytest.skip("the process was quicker than the look at its folder")
