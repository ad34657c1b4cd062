"""What was once silent or fatal: batches without positives, forged networks, missing arenas, other systems."""

import logging
import os
import re
import subprocess
import sys

import pytest
import torch

import similis
from similis.run.cost import Measured
from similis.run.machine import Machine
from similis.study.plan import cost
from similis.study.plan.cost import check_runs, plan_cost
from tests.cli.test_main import ended
from tests.data.pictures import picture, write
from tests.study.small import plan


@pytest.mark.parametrize("name", ["triplet", "multi_similarity", "supcon", "circle", "npair", "nca"])
def test_a_batch_without_positives_warns_once_and_names_the_sampler(name, caplog):
    loss, x = similis.loss(name, **({"l2": 0.0} if name == "npair" else {})), torch.randn(6, 8)
    with caplog.at_level(logging.WARNING):
        loss(x, torch.tensor([0, 0, 1, 1, 2, 2]))
        assert not caplog.records
        values = [float(loss(x, torch.arange(6)).detach()) for _ in range(3)]
    assert values == [0.0] * 3
    (record,) = caplog.records
    assert "training.sampler=balanced" in record.getMessage()
    assert name in record.getMessage()


def arenas(*sources):
    return plan(arenas=[{"name": f"a{n}", "data": {"source": source}} for n, source in enumerate(sources)])


def test_a_plan_counts_the_images_of_every_arena(monkeypatch):
    small, large = "synthetic?classes=16&images=6&size=12", "synthetic?classes=32&images=12&size=12"
    monkeypatch.setattr(cost, "measure_step", lambda *_: Measured(1.0, 0.0))
    first, other, both = (plan_cost(arenas(*each)).seconds for each in ((small,), (large,), (small, large)))
    assert first < both < first + other  # the search is in the first arena alone


def test_a_plan_opens_the_data_of_every_arena_before_anything_runs(tmp_path):
    given = arenas("synthetic?classes=16&images=6&size=12", str(tmp_path / "gone/"))
    with pytest.raises(similis.SimilisError, match="gone"):
        check_runs(given, Machine())
    with pytest.raises(similis.SimilisError, match="gone"):
        similis.tournament(given, tmp_path / "study")


def test_the_package_is_imported_where_there_are_no_locks_of_unix(tmp_path):
    code = """
import sys
for name in ("fcntl", "resource"):
    sys.modules[name] = None
import importlib, similis
from pathlib import Path
root = Path(similis.__file__).parent
for file in root.rglob("*.py"):
    if "import fcntl" in file.read_text() or "import resource" in file.read_text():
        importlib.import_module(".".join(("similis", *file.relative_to(root).with_suffix("").parts)))
from similis.training.file_lock import hold_lock
with hold_lock(Path(sys.argv[1]) / "lock"):
    pass
from similis.study.records import Meter
print(Meter().cost())
"""
    words = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "seconds" in done.stdout


def words_of(command: str, **environment) -> subprocess.CompletedProcess:
    """A command in a process of its own."""
    words = [sys.executable, "-c", "from similis.cli import main; main()", *command.split()]
    return subprocess.run(words, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=300)


def test_weights_that_cannot_be_had_are_missed_before_a_photo_is_read(tmp_path):
    write(tmp_path / "photos", {f"{c}/{n}.png": picture(10 * c + n) for c in range(8) for n in range(4)})
    nobody = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "hub")}
    done = words_of(f"train {tmp_path / 'photos'} --runs {tmp_path / 'runs'}", **nobody)
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()  # one sentence, and no lines of a client that tries again
    assert "127.0.0.1 cannot be reached" in line
    assert "--weights PATH" in line
    assert "planning" not in done.stdout
    assert not (tmp_path / "runs").exists()


def test_every_phase_of_a_training_says_that_it_begins(tmp_path, capsys):
    small = "--backbone small_conv --weights none --size 16 --dim 8 --epochs 1 --batch 20 --device cpu --no-pictures"
    assert ended(f"train synthetic?classes=16&images=6&size=16 {small} --runs {tmp_path}".split()) == 0
    begun = ("device ", "reading ", "planning ", "training: ", "training on all ", "evaluating on ",
             "before training, ")  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    places = [next(place for place, line in enumerate(lines) if line.startswith(words)) for words in begun]
    assert places == sorted(places)


@pytest.mark.slow
def test_the_memory_of_a_plan_is_that_of_its_run(tmp_path):
    small = "--backbone small_conv --set model.options.width=wide --weights none --size 80 --dim 8 --epochs 1"
    code = f"""
import resource
from similis.cli import main
try:
    main("train synthetic?classes=12&images=12&size=64 {small} --batch 48 --device cpu --runs {tmp_path}".split())
except SystemExit:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    planned, cache = map(float, re.search(r" ([\d.]+) GB, and up to ([\d.]+) GB", done.stdout).groups())
    peak = float(done.stdout.splitlines()[-1])
    assert planned > 0.9  # more than PyTorch itself takes
    assert 0.7 * planned < peak < 1.25 * (planned + cache), (planned, cache, peak)
