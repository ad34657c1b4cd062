"""Run folders under attack: after any damage, the same command gives the same numbers or one sentence.

One file of a finished run, or of a run killed at some moment, is damaged. Then ``train`` and ``search`` are called
again, as a user calls them. They print what they would have printed without the damage, or they end with one sentence
that says what to do; doing that leads to the same bits.
"""

import io
import random
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tests.cli.test_main import ended
from tests.hostile.run_place import SLIM, make_place, search, train
from tests.run.small import folder_in, kill_at, ran, remains

ALWAYS = ["address", "environment.json", "metrics.jsonl", "spec.json"]
FINISHED = [*ALWAYS, "embeddings.safetensors", "galleries/*", "model.safetensors", "result.json",
            "scores.safetensors", "selection.json", "curves.png", "report.html", "report-points.json", "embeddings.csv",
            "before.safetensors", "trained-on.safetensors", "proxies.safetensors"]  # fmt: skip
CHECKPOINTS = ["checkpoint-select.safetensors", "checkpoint-select-previous.safetensors", "best-select.safetensors"]
# What a process leaves that is killed there: after the step, before the checkpoint that would follow.
INTERRUPTED = {
    ("step", 1): [*ALWAYS, ".lock"],
    ("step", 2): [*ALWAYS, ".lock", "checkpoint-select.safetensors"],
    ("validation", 1): [*ALWAYS, ".lock", *CHECKPOINTS, "proxies.safetensors"],
    ("refit", 3): [*ALWAYS, ".lock", *CHECKPOINTS, "proxies.safetensors", "selection.json",
                   "checkpoint-refit.safetensors", "checkpoint-refit-previous.safetensors"],
}  # fmt: skip


def halve(path: Path, other: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path, other: Path) -> None:
    path.write_bytes(b"")


def scramble(path: Path, other: Path) -> None:
    """Random bytes of the same number."""
    path.write_bytes(random.Random(path.name).randbytes(path.stat().st_size))


def blank_the_end(path: Path, other: Path) -> None:
    """Zeros in the second half, as after a power cut before the file system has written it."""
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2] + bytes(size - size // 2))


def remove(path: Path, other: Path) -> None:
    path.unlink()


def make_a_folder(path: Path, other: Path) -> None:
    path.unlink()
    (path / "inside").mkdir(parents=True)


def exchange(path: Path, other: Path) -> None:
    """The sound file of this name from a run with another seed; lines of metrics do not say whose they are."""
    if path.name != "metrics.jsonl" and (other / path.name).exists():
        shutil.copy(other / path.name, path)


ATTACKS = [halve, empty, scramble, blank_the_end, remove, make_a_folder, exchange]


def cases(places: list[tuple], every: int) -> list:
    """Places with every attack; one case of so many is not slow."""
    all_of_them = [(*place, attack) for place in places for attack in ATTACKS]
    return [
        pytest.param(*case, id=f"{case[-1].__name__} {' '.join(map(str, case[:-1]))}",
                     marks=() if number % every == 0 else pytest.mark.slow)
        for number, case in enumerate(all_of_them)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_place(tmp_path_factory.mktemp("attacked"))


@pytest.fixture(scope="module")
def killed(place):
    """Makes the folder of the run that a process leaves when it is killed at a moment; each is made once."""

    def folder_at(moment: tuple[str, int], seed: int = 0) -> Path:
        root = place / f"killed-{moment[0]}-{moment[1]}-{seed}"
        if not root.exists():
            kill_at(root, {"data__source": str(place / "photos"), "model__options": SLIM, "seed": seed}, *moment)
        return folder_in(root)

    return folder_at


@pytest.fixture(scope="module")
def other(place, killed):
    """Files of a run with another seed, finished and killed in its refit."""
    done = ran(place / "other", data__source=str(place / "photos"), model__options=SLIM, seed=1)
    shutil.copytree(killed(("refit", 3), seed=1), done.folder, dirs_exist_ok=True)
    return done.folder


@pytest.fixture(scope="module")
def finished(place):
    """A finished run with its pictures and a gallery, and what ``train`` and ``search`` print about it."""
    root = place / "finished"
    said = [printed(train(place, root)), printed(search(place, folder_in(root)))]
    return folder_in(root), said[0], said[1], remains(folder_in(root))


def printed(words: list[str]) -> str | None:
    """The table that a command line prints; None if it ends with a sentence of ours instead, and one only."""
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        code = ended(words)
    said = error.getvalue()
    assert "Traceback" not in said
    if code == 0:
        lines = out.getvalue().splitlines()
        table = next(number for number, line in enumerate(lines) if "MAP@R %" in line or " among " in line)
        paths = ("run folder", "curves", "drawing", "report", "  similis")
        return "\n".join(line for line in lines[table:] if not line.startswith(paths))
    assert len(said.splitlines()) == 1
    assert said.startswith("similis: ")
    assert any(remedy in said for remedy in ("delete it", "free space", "continue it with", "finished run")), said
    return None


def copy_of(folder: Path, place: Path) -> Path:
    """A fresh copy of the run in a folder of runs of its own."""
    shutil.rmtree(place / "copy", ignore_errors=True)
    return Path(shutil.copytree(folder, place / "copy" / folder.name))


def follow_the_remedy(attacked: Path, folder: Path) -> None:
    """What the sentences say: delete the file, and result.json beside it."""
    for path in (attacked, folder / "result.json"):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def numbers(folder: Path, attacked: Path) -> dict[str, object]:
    """All bits that a run leaves; lines of the metrics that were destroyed do not come again.

    A first stage that is done again after the second one had begun writes its lines behind those of the second.
    """
    kept = remains(folder)
    kept["metrics"] = sorted(kept["metrics"])
    left = {attacked.name} if attacked.is_dir() else set()  # a folder that somebody made harms nobody
    later = {"curves.png", "report.html", "report-points.json", "galleries"}
    kept["files"] = [name for name in kept["files"] if name not in later | left]
    if attacked.name == "metrics.jsonl":
        del kept["metrics"]
    return kept


@pytest.mark.parametrize(("name", "attack"), cases([(name,) for name in FINISHED], every=16))
def test_a_finished_run_tells_the_same_numbers_or_what_to_do(name, attack, finished, other, place):
    sound, table, answers, _ = finished
    folder = copy_of(sound, place)
    attacked = next(folder.glob(name))
    attack(attacked, other)
    said = printed(train(place, folder.parent))
    assert said in (None, table)
    assert printed(search(place, folder)) in (None, answers)
    if said is None or (name.endswith("tensors") and attack is not exchange):
        follow_the_remedy(attacked, folder)
        assert printed(train(place, folder.parent)) == table
        assert numbers(folder, attacked) == numbers(sound, attacked)
        assert printed(search(place, folder)) == answers


@pytest.mark.parametrize(
    ("moment", "name", "attack"),
    cases([(moment, name) for moment, names in INTERRUPTED.items() for name in names], every=61),
)
def test_an_interrupted_run_ends_with_the_same_bits_or_says_what_to_do(
    moment, name, attack, killed, finished, other, place
):
    sound, table, answers, _ = finished
    folder = copy_of(killed(moment), place)
    attacked = next(folder.glob(name))
    attack(attacked, other)
    assert printed(search(place, folder)) is None
    said = printed(train(place, folder.parent))
    if said is None:
        follow_the_remedy(attacked, folder)
        said = printed(train(place, folder.parent))
    assert said == table
    if name == "address":  # nobody can tell which run that folder was: it is done again beside it
        folder = next(path.parent for path in folder.parent.glob("*/result.json"))
    assert numbers(folder, attacked) == numbers(sound, attacked)
    assert printed(search(place, folder)) == answers


def test_every_file_of_a_run_folder_is_attacked(finished, killed):
    """A file that is new in a run folder fails here until it is in the lists above."""
    for folder, names in [(finished[0], FINISHED), *((killed(moment), INTERRUPTED[moment]) for moment in INTERRUPTED)]:
        files = {path for path in folder.rglob("*") if path.is_file()}
        assert files == {path for name in names for path in folder.glob(name)}


@pytest.mark.parametrize("attack", [halve, pytest.param(blank_the_end, marks=pytest.mark.slow)])
@pytest.mark.parametrize("moment", [("validation", 1), pytest.param(("refit", 3), marks=pytest.mark.slow)])
def test_a_damaged_checkpoint_falls_back_to_the_one_before_it(moment, attack, killed, finished, place, caplog, capsys):
    """Both runs were killed with the checkpoints of steps 1 and 2 in their folder."""
    folder = copy_of(killed(moment), place)
    stage = "refit" if moment[0] == "refit" else "select"
    attacked = folder / f"checkpoint-{stage}.safetensors"
    attack(attacked, folder)
    assert ended(train(place, folder.parent)) == 0
    title = {"refit": "training on all training classes", "select": "training"}[stage]
    assert re.search(rf"^{title}: .*, continued after step 1$", capsys.readouterr().out, re.M)
    assert "going back to the checkpoint before" in caplog.text
    assert numbers(folder, attacked) == numbers(finished[0], attacked)
