"""The local engine: order, exceptions, and no process that outlives its driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from similis.engine.process_pool import WorkersLostError
from similis.engine.process_pool import map as engine_map
from similis.values import UserError


def test_results_of_other_processes_keep_the_order():
    values, pids = zip(*engine_map(pow_pid, [3, 0, 1, 2], workers=2), strict=True)
    assert values == (9, 0, 1, 4)
    assert os.getpid() not in pids
    assert {pid for _, pid in engine_map(pow_pid, range(4), workers=1)} == {os.getpid()}


@pytest.mark.parametrize("workers", [1, 2])
def test_exceptions_are_carried(workers):
    with pytest.raises(UserError, match="two is refused"):
        engine_map(refuse_two, [1, 2, 3], workers=workers)


def test_no_worker_is_refused():
    with pytest.raises(UserError, match="workers=0"):
        engine_map(abs, [1], workers=0)


def test_workers_end_when_their_driver_is_killed(tmp_path):
    code = "from similis.engine.process_pool import map\nfrom tests.engine.test_process_pool import linger\n" \
        "import sys\nif __name__ == '__main__': map(linger, [sys.argv[1]] * 2, workers=2)\n"  # fmt: skip
    script = tmp_path / "driver.py"
    script.write_text(code)
    driver = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    pids = wait_for(lambda: [int(f.suffix[1:]) for f in tmp_path.glob("pid.*")], lambda found: len(found) == 2)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    wait_for(lambda: [pid for pid in pids if alive(pid)], lambda left: not left)


def test_lost_processes_are_replaced_as_often_as_allowed(tmp_path):
    work = [(str(tmp_path), number) for number in range(6)]
    told = []
    assert engine_map(die_at_two, work, workers=2, retries=1, on_result=told.append) == [0, 1, 4, 9, 16, 25]
    assert sorted(told) == [0, 1, 4, 9, 16, 25]  # each once
    (tmp_path / "died").unlink()
    with pytest.raises(WorkersLostError, match="lost 1 times"):
        engine_map(die_at_two, work, workers=2)


def die_at_two(case: tuple[str, int]) -> int:
    folder, number = case
    if number == 2 and not (died := Path(folder, "died")).exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def pow_pid(value: int) -> tuple[int, int]:
    return value**2, os.getpid()


def refuse_two(value: int) -> int:
    if value == 2:
        raise UserError("two is refused")
    return value


def linger(folder: str) -> None:
    with Path(folder, f"pid.{os.getpid()}").open("w"):
        time.sleep(120)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_for(look, good, seconds: float = 60.0):
    """What ``look`` sees as soon as it is good."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = look()
        if good(seen):
            return seen
        time.sleep(0.05)
    raise AssertionError(f"still {seen} after {seconds} s")
