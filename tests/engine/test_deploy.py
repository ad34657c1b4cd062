"""The example files for SLURM and Kubernetes: they parse, and the commands that they start exist."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from similis.run import torchrun
from similis.values import UserError
from tests.cli.test_main import ended

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
FILES = sorted(DEPLOY.iterdir())


@pytest.mark.parametrize("file", [f for f in FILES if f.suffix == ".sbatch"], ids=lambda f: f.name)
def test_shell_files_parse(file):
    assert subprocess.run(["bash", "-n", file], check=False).returncode == 0
    directives = re.findall(r"^#SBATCH (.*)$", file.read_text(), re.M)
    assert all(re.match(r"--[a-z-]+(=\S+)?(\s+#.*)?$", line) for line in directives)


def test_the_ray_job_has_a_cluster_that_shares_its_runs():
    job = yaml.safe_load((DEPLOY / "kuberay.yaml").read_text())
    assert (job["kind"], job["apiVersion"]) == ("RayJob", "ray.io/v1")
    cluster = job["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        assert {m["name"] for c in pod["containers"] for m in c["volumeMounts"]} == {v["name"] for v in pod["volumes"]}


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_modules_exist(file):
    for module in re.findall(r"-m (similis[\w.]+)", file.read_text()):
        assert importlib.util.find_spec(module) is not None


def test_the_commands_take_the_arguments_of_the_files(tmp_path, monkeypatch, capsys):
    spec = tmp_path / "run.yaml"
    words = yaml.safe_load((DEPLOY / "kuberay.yaml").read_text())["spec"]["entrypoint"].split()
    assert words[0] == "similis"
    assert ended([*words[1:2], str(spec), *words[3:]]) == 2  # the options are known; what is missing is the file
    assert "there is no file" in capsys.readouterr().err
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(UserError, match="start this by torchrun"):
        torchrun.main([str(spec), "--runs", str(tmp_path)])
