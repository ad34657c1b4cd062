"""The doctor is right about this machine, sees planted faults, and says so in words, in JSON and by its exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from similis.doctor import costs, losses, ranks, report
from similis.doctor.cases import CPU, Case, Way, compute, difference, list_cases
from similis.doctor.losses import RECORDED, check_losses, compare, project
from similis.objective.backends.tiled import tile_gradient
from similis.objective.context import Tiling
from similis.values import MissingExtraError, UserError
from tests.cli.test_main import ended

TILED = Way(tiling=Tiling(13, 9))
SITE = """
from tests.accelerator import emulator
emulator.load()
from tests.accelerator.group import register_group
register_group()
"""


def run_verb(*words, **environment):
    """Output and exit code of the verb in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", "from similis.cli import main; main()", "doctor", *words],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    return done.stdout + done.stderr, done.returncode


@pytest.mark.parametrize("name", ["supcon", "proxy_anchor", "margin"])
def test_a_loss_is_right_in_every_way(name):
    found = list(check_losses(CPU, [name], 3))
    assert {each.way for each in found} == {"recorded", *losses.WAYS} - {"compiled", "float64 dense"}
    assert [each for each in found if not each.right] == []


def test_every_case_is_recorded():
    """After a new loss, or a change of its mathematics: similis.doctor.losses.record()."""
    recorded = json.loads(RECORDED.read_text())
    cases = {str(case): case for case in list_cases()}
    missing = [name for name in cases if name not in recorded]
    assert not missing, f"run python -c 'from similis.doctor.losses import record; record()': {missing}"
    for name in [*cases][::9]:
        want = torch.tensor(recorded[name], dtype=torch.float64)
        assert difference(project(compute(cases[name], Way())), want) <= 1e-9, name


def test_a_wrong_sign_in_the_gradient_of_a_tile_is_seen(monkeypatch):
    plain = tile_gradient.tile_weight
    monkeypatch.setattr(tile_gradient, "tile_weight", lambda *given: -plain(*given))
    found = compare(Case("supcon", "default", "labels"), "tiled", TILED, CPU)
    assert (found.right, found.error) == (False, "")
    assert found.gradient > 0.1


def test_a_fault_of_one_batch_alone_is_a_threshold_and_no_fault(monkeypatch):
    once = iter([5.0])
    monkeypatch.setattr(losses, "differences", lambda got, want: (next(once, 0.0), 0.0))
    assert compare(Case("supcon", "default", "labels"), "tiled", TILED, CPU).right
    monkeypatch.setattr(losses, "differences", lambda got, want: (5.0, 0.0))
    assert not compare(Case("supcon", "default", "labels"), "tiled", TILED, CPU).right


def test_an_error_of_a_device_is_a_wrong_figure(monkeypatch):
    def fail(*_):
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(losses, "compute", fail)
    found = compare(Case("supcon", "default", "labels"), "tiled", TILED, CPU)
    assert (found.right, found.error) == (False, "RuntimeError: no kernel image is available")


def test_differences_are_relative_and_no_number_is_the_largest():
    one, nan = torch.ones(2), torch.tensor([1.0, float("nan")])
    assert difference(4 * one, 2 * one) == 1.0
    assert difference(nan, one) == difference(one, torch.ones(3)) == float("inf")
    assert difference(one[:0], one[:0]) == 0.0


@pytest.mark.parametrize("world", [2, 3, 4, 8])
def test_rows_are_uneven(world):
    for empty in (False, True):
        counts = ranks.split_rows(world, empty=empty)
        assert sum(counts) == ranks.ROWS
        assert (counts[-1] == 0) == empty
        assert min(counts[:-1]) > 0
        assert counts[0] > counts[-1]


def test_the_verb_prints_marks_writes_every_figure_and_ends_with_0(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(report, "GROUPS", ("losses",))
    assert ended(["doctor", "--loss", "supcon", "--device", "cpu", "--json", str(tmp_path / "new" / "d.json")]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads((tmp_path / "new" / "d.json").read_text())
    assert printed.err.startswith("ok ")
    assert "similis doctor, cpu" in printed.err
    found = json.loads(printed.out)
    assert found["right"] is True
    assert found["versions"]["torch"] == torch.__version__
    (group,) = found["groups"]
    assert len(group["figures"]) > 20
    assert {"case", "way", "value", "gradient", "right", "error"} == set(group["figures"][0])


def test_the_verb_ends_with_1_where_anything_is_wrong(capsys, monkeypatch):
    monkeypatch.setattr(report, "GROUPS", ("losses",))
    monkeypatch.setattr(losses, "difference", lambda got, want: 1.0)
    assert ended(["doctor", "--loss", "supcon", "--device", "cpu", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["right"] is False
    assert "FAILED: losses" in found["sentence"]


def test_an_unknown_loss_is_refused_and_nothing_checked_is_said():
    with pytest.raises(UserError, match="nosuch"):
        next(report.run_checks("cpu", 1, ["nosuch"], 0, report.GROUPS))
    groups = [*report.run_checks("cpu", 1, ["arcface"], 0, ["compiled", "ranks"])]
    assert "nothing was checked" in report.write_report("cpu", groups)["sentence"]


@pytest.mark.slow
def test_a_machine_without_a_compiler_is_not_wrong(tmp_path):
    code = """
from similis.doctor.cases import CPU
from similis.doctor.losses import check_losses
(found,) = check_losses(CPU, ["supcon"], 0, compiled=True)
print(found.right, found.error[:300])
"""
    environment = {**os.environ, "CXX": str(tmp_path / "none"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.startswith("None "), done.stdout + done.stderr


def test_a_slow_device_is_not_wrong(monkeypatch):
    monkeypatch.setattr(costs, "ratio", lambda *_: 1000.0)
    monkeypatch.setattr(costs, "NETWORKS", ("small_conv",))
    (group,) = report.run_checks("cpu", 1, ["supcon"], 0, ["speed"])
    assert (group.right, "supcon 1000.0" in group.sentence) == (None, True)


def test_a_missing_extra_is_named_and_ends_nothing(monkeypatch):
    def build(**given):
        raise MissingExtraError("timm", "vision")

    monkeypatch.setattr(costs, "build_embedder", build)
    monkeypatch.setattr(costs, "ratio", lambda *_: 1.0)
    (group,) = report.run_checks("cpu", 1, ["supcon"], 0, ["speed"])
    assert "resnet18 is not measured" in group.sentence
    assert "'.[vision]'" in group.sentence
    assert "search 1.0" in group.sentence


def test_a_peak_above_the_plan_is_wrong(monkeypatch):
    for peak, right in ((2**20, True), (2**40, False)):
        monkeypatch.setattr(costs, "launch", lambda *_, peak=peak, **more: [[peak] * 3])
        (group,) = report.run_checks("cpu", 1, ["supcon"], 0, ["memory"])
        assert group.right is right


def test_what_fails_as_a_whole_is_wrong_and_the_next_group_goes_on(monkeypatch):
    monkeypatch.setattr(report, "check_memory", lambda *_: 1 / 0)
    first, second = report.run_checks("cpu", 1, ["supcon"], 0, ["memory", "ranks"])
    assert (first.right, "ZeroDivisionError" in first.sentence) == (False, True)
    assert (second.right, second.sentence) == (None, "not measured")


@pytest.mark.slow
def test_two_ranks():
    (group,) = report.run_checks("cpu", 2, ["supcon", "proxy_anchor"], 1, ["ranks"])
    assert group.right, group.sentence
    assert {each.way.split(",")[0] for each in group.figures} == {"cpu rank 0 of 2", "cpu rank 1 of 2"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_whole_verb_on_the_processor(tmp_path):
    said, code = run_verb("--device", "cpu", "--json", str(tmp_path / "d.json"))
    assert code == 0, said
    found = json.loads((tmp_path / "d.json").read_text())
    assert [group["name"] for group in found["groups"]] == [*report.GROUPS]
    assert [group["right"] for group in found["groups"]] == [True, True, True, True, None]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_whole_verb_on_the_emulated_device(tmp_path):
    """Known to every process by a sitecustomize; two devices, so that each rank has one."""
    from tests.accelerator import emulator

    if (reason := emulator.why_not()) is not None:
        pytest.skip(reason)
    (tmp_path / "sitecustomize.py").write_text(SITE)
    words = ("--device", "emulated", *(w for name in ("supcon", "normface", "triplet") for w in ("--loss", name)))
    said, code = run_verb(*words, "--json", str(tmp_path / "d.json"), PYTHONPATH=f"{tmp_path}:{Path.cwd()}")
    assert code == 0, said
    found = json.loads((tmp_path / "d.json").read_text())
    assert found["device"].startswith("emulated")
    assert [group["right"] for group in found["groups"]] == [True, True, True, None, None]
    assert all(each["way"].startswith("emulated rank") for each in found["groups"][2]["figures"])
