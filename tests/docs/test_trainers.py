"""The scripts of ``examples/trainers``: on two ranks what they are on one."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import similis
from tests.docs.blocks import ROOT

ADOPTED = re.findall(
    r"^```diff\n(.*?)^```", (ROOT / "docs/tutorials/adopt.md").read_text(encoding="utf-8"), re.M | re.S
)
SCRIPTS = sorted((ROOT / "examples" / "trainers").glob("*.py"))
# points: each rank draws its own
DROPOUT = dict.fromkeys(("with_sentence_transformers", "pairs_with_sentence_transformers", "adopted_2"), 1.0)


def recall(path: Path, ranks: int) -> float:
    """What a script prints, in percent."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", str(path)]
    if path.stem in ("with_lightning", "adopted_1"):  # starts its ranks itself
        command = [sys.executable, str(path), str(ranks)]
    if path.stem.endswith("_sentence_transformers") or path.stem == "adopted_2":
        command.append(str(Path(os.environ["SIMILIS_DATA"]) / "text" / "banking77.csv"))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return float(re.search(r"R@1 ([\d.]+) %", done.stdout)[1])


@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_two_ranks_are_one(path):
    one, two = recall(path, 1), recall(path, 2)
    assert abs(one - two) <= DROPOUT.get(path.stem, 0.0), (one, two)
    assert one > 70, "the network learns"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
def test_published_scripts_after_their_change(number, tmp_path):
    lines = ADOPTED[number].splitlines()
    script = tmp_path / f"adopted_{number}.py"
    script.write_text("\n".join(line[1:] for line in lines if line[:1] != "-"), encoding="utf-8")
    compile("\n".join(line[1:] for line in lines if line[:1] != "+"), "as published", "exec")
    one, two = recall(script, 1), recall(script, 2)
    assert abs(one - two) <= DROPOUT.get(script.stem, 0.0), (one, two)
    assert one > 30, "the network learns: it begins at 12"


@pytest.mark.slow
def test_a_dataset_of_hugging_face_is_trained_on(tmp_path):
    datasets, pillow = importlib.import_module("datasets"), importlib.import_module("PIL.Image")
    drawn = np.random.default_rng(0).integers(0, 255, (72, 20, 20, 3), dtype=np.uint8)
    names = datasets.ClassLabel(names=[f"kind {number}" for number in range(12)])
    kinds = datasets.Features({"image": datasets.Image(), "label": names})
    values = {"image": [pillow.fromarray(each) for each in drawn], "label": [row % 12 for row in range(72)]}
    model = {"backbone": "small_conv", "weights": None, "dim": 8, "image_size": 16}
    spec = {"model": model, "training": {"epochs": 1, "batch_size": 10}}
    data = datasets.Dataset.from_dict(values, features=kinds)
    result = similis.train(spec, data=data, runs=tmp_path, device="cpu")
    assert result.facts["handed over"] == {"data": f"own:{data._fingerprint}"}
    assert result.facts["classes"]["test"] == 6
