"""Ray for real: tasks in order, exceptions, lost workers, lost nodes, a gang that goes on from its checkpoint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from similis.values import MissingExtraError, UserError

ROOT = Path(__file__).parents[2]


def scene(name: str, *arguments: object) -> str:
    """A scene of ``ray_scenes`` in a process of its own: Ray leaves threads, files and warnings behind."""
    command = [sys.executable, "-m", "tests.engine.ray_scenes", name, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3500, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("small", (), ["all as expected"]),
        ("lost_workers", (), ["all as expected"]),
        ("lost_node", (), ["all as expected"]),  # one of three
        ("killed_run", (15, 500, 1.5), ["15 kills"]),
        ("killed_tournament", (15, 3), ["15 kills", "63 runs"]),
        ("killed_embedding", (20_000, 20), ["20 kills"]),
    ],
)
def test_a_scene_with_a_real_cluster(tmp_path, capsys, name, arguments, told):
    """The last: a run, a tournament of 63 runs and 20,000 images to embed while workers, nodes and drivers die."""
    pytest.importorskip("ray")
    said = scene(name, tmp_path, *arguments)
    with capsys.disabled():
        print(said)
    for words in told:
        assert words in said


def test_nothing_of_ray_is_imported_before_it_is_asked_for():
    code = "import sys; import similis.engine.ray, similis.run.distributed; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_without_ray_the_extra_is_named(monkeypatch):
    from similis.engine import ray, ray_train

    monkeypatch.setitem(sys.modules, "ray", None)  # what an import without the package does
    with pytest.raises(MissingExtraError, match=r"\.\[cluster\]"):
        ray.map(abs, [1])
    with pytest.raises(MissingExtraError, match="ray is not installed"):
        ray_train.train_on_ray(abs, 2, folder=Path())


def test_wrong_numbers_are_refused():
    from similis.engine import ray, ray_train

    with pytest.raises(UserError, match="workers=0"):
        ray.map(abs, [1], workers=0)
    with pytest.raises(UserError, match="workers=0"):
        ray_train.train_on_ray(abs, 0, folder=Path())
