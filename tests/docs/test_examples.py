"""The scripts of ``examples/`` are short, are run as a reader runs them, and reach what they promise."""

import importlib.util
import os
import re
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import similis
from tests.cli.test_main import ended
from tests.docs.blocks import ROOT
from tests.docs.test_blocks import write_photos
from tests.forking import start

EXAMPLES = ROOT / "examples"


def play(script: str, folder: str, words: list[str], said: str) -> None:
    """Run a script as the main program of this process; what it prints goes to a file."""
    os.chdir(folder)
    sys.argv, sys.path[:0] = [script, *words], [str(EXAMPLES)]
    with Path(said).open("w", encoding="utf-8") as file, redirect_stdout(file):
        runpy.run_path(script, run_name="__main__")


def run_example(name: str, folder: Path, *arguments: str) -> str:
    """What a script prints, run in a folder of its own."""
    process = start(play, str(EXAMPLES / f"{name}.py"), str(folder), [*arguments], str(folder / "said"))
    process.join()
    assert process.exitcode == 0
    return (folder / "said").read_text(encoding="utf-8")


def run_alone(name: str, folder: Path, *arguments: str) -> str:
    """What a script prints in a process of its own."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def percentages(printed: str) -> list[float]:
    return [float(number) for number in re.findall(r"([\d.]+) %", printed)]


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= (40 if path.parent.name == "trainers" else 45)


def test_photos_to_search(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_photos(similis.open_data("synthetic?classes=16&images=8&size=24"), range(128))
    small = ("--backbone", "small_conv", "--weights", "none", "--size", "24", "--epochs", "1", "--batch", "20")
    printed = run_example("photos_to_search", tmp_path, "photos/", "query.jpg", *small)
    assert len(percentages(printed)) == 3  # untouched at its own and at this resolution, trained
    assert len(re.findall(r"^0\.\d+  ", printed, re.M)) == 5
    assert (tmp_path / "my-model").is_dir()


def test_own_loop(tmp_path):
    before, after = percentages(run_example("own_loop", tmp_path))
    assert after > before + 40


def test_own_loss(tmp_path, monkeypatch):
    assert "as by the definition" in run_example("own_loss", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("similis.study.looks.LOOKS", (3,))
    words = [str(EXAMPLES / "strokes.yaml"), "--loss", f"{EXAMPLES / 'own_loss.py'}:soft_gap"]
    small = "--set data.source=strokes?classes=16&images=6 --size 12 --batch 20 --epochs 1 --fixed --hours 0.02"
    assert ended(["compare", *words, "--against", "proxy_anchor", *small.split()]) == 0
    assert list(tmp_path.glob("comparisons/*/report.html"))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["proxy_anchor", "arcface"])
def test_million_classes(loss, tmp_path):
    printed = run_example("million_classes", tmp_path, "--classes", "10000", "--batch", "32", "--loss", loss)
    assert printed.count("step") == 2


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_ray_tasks(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_worker_niceness", "0")  # 15 by default, which starves on a busy machine
    printed = run_alone("ray_tasks", tmp_path, "--epochs", "1")
    assert len(percentages(printed)) == 2
    assert len(list((tmp_path / "runs").glob("*/result.json"))) == 2


@pytest.mark.slow
def test_two_views(tmp_path):
    strings, views = (percentages(line) for line in run_example("two_views", tmp_path).splitlines())
    assert strings[1] > strings[0] + 40
    assert views[1] > views[0] + 40


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """A folder that ``similis embed`` wrote."""
    out = str(tmp_path_factory.mktemp("stores") / "vectors")
    small = "--model small_conv --weights none --size 16 --part-size 60 --device cpu"
    assert ended(["embed", "synthetic?classes=20&images=10&size=16", out, *small.split()]) == 0
    return out


FOUND = "200 vectors, 100 of 100 queries find the ten nearest of an exact search"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "package"), [("store_lancedb", "lancedb"), ("store_qdrant", "qdrant_client")])
def test_stores_without_a_server(name, package, vectors, tmp_path):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    for _ in range(2):  # the second run finds everything there
        assert FOUND in run_alone(name, tmp_path, vectors, "store")


# A server of its own, below the system's folder of temporary files: as root it runs as another user, who must reach it.
POSTGRES = """
import subprocess, sys, tempfile
import pgserver
with tempfile.TemporaryDirectory() as folder, pgserver.get_server(folder) as server:
    for _ in range(2):
        subprocess.run([sys.executable, *sys.argv[1:], server.get_uri()], check=True)
"""


@pytest.mark.slow
def test_store_pgvector(vectors, tmp_path):
    if importlib.util.find_spec("pgserver") is None:
        pytest.skip("needs pgserver, which carries PostgreSQL with pgvector")
    command = [sys.executable, "-c", POSTGRES, str(EXAMPLES / "store_pgvector.py"), vectors]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [FOUND] * 2
