"""Kill -9 the driver at random moments: the report at the end is the report of an uninterrupted tournament."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from similis.study.plan.plan_file import plan_text, read_plan
from similis.study.report.page import write_report
from similis.study.tournament import run_tournament
from similis.study.tournament_folder import TournamentFolder
from tests.study.small import plan, without_cost

DRIVER = """
import sys
from pathlib import Path
from similis.study.plan.plan_file import read_plan
from similis.study.tournament import run_tournament
if __name__ == "__main__":
    Path(sys.argv[2]).mkdir(exist_ok=True)
    (Path(sys.argv[2]) / "awake").touch()
    run_tournament(read_plan(Path(sys.argv[1])), Path(sys.argv[2]), workers=int(sys.argv[3]))
"""


@pytest.mark.timeout(1800)
@pytest.mark.slow
@pytest.mark.parametrize(("kills", "workers"), [(1, 1), (10, 2)])
def test_killed_at_random_moments(tmp_path, kills, workers):
    long = {"repetitions": 16, "search": {"trials": 1, "epochs": 3, "startup": 1}}
    made = plan(**long) if kills > 1 else plan(search={"trials": 1, "epochs": 2, "strategy": "random"})
    begun = time.monotonic()
    whole = run_tournament(made, tmp_path / "whole")
    last = 1.5 if workers == 1 else 1.2 * (time.monotonic() - begun) / kills  # all kills come before the end
    killed = tmp_path / "killed"
    (tmp_path / "plan.yaml").write_text(plan_text(made))
    (tmp_path / "driver.py").write_text(DRIVER)
    chance = random.Random(kills)
    for _ in range(kills):
        kill_once(tmp_path, killed, workers, chance.uniform(0.2, last))
    run_tournament(read_plan(tmp_path / "plan.yaml"), killed)
    assert without_cost(killed) == without_cost(whole.path)
    assert (killed / "ledger.jsonl").read_text().count("\n") == (whole.path / "ledger.jsonl").read_text().count("\n")
    no_step_twice(killed)
    assert {path.parent.name for path in killed.glob("runs/*/spec.json")} == {
        path.parent.name for path in whole.path.glob("runs/*/spec.json")
    }
    pages = [
        write_report(TournamentFolder(folder), out=tmp_path / f"out-{folder.name}", times=False)
        for folder in (whole.path, killed)
    ]
    for one, other in zip(*pages, strict=True):
        assert one.read_bytes() == other.read_bytes()


def kill_once(tmp_path: Path, folder: Path, workers: int, seconds: float) -> None:
    """Start the driver, let it work for a while, kill it; it must not have been done before."""
    (folder / "awake").unlink(missing_ok=True)
    words = [sys.executable, str(tmp_path / "driver.py"), str(tmp_path / "plan.yaml"), str(folder), str(workers)]
    driver = subprocess.Popen(words, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    while not (folder / "awake").exists():
        time.sleep(0.02)
    time.sleep(seconds)
    assert driver.poll() is None, f"the tournament ended (code {driver.returncode}) before it could be killed"
    driver.kill()
    driver.wait()


def no_step_twice(folder: Path) -> None:
    """Every run has each of its steps once in its metrics, whatever was killed in between."""
    for file in folder.glob("runs/*/metrics.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        steps = [(line["stage"], line["step"], "loss" in line) for line in lines]
        assert len(steps) == len(set(steps)), file
