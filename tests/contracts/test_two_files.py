"""Adding a loss takes two files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LOSS = '''"""Spread: an example of a loss that somebody adds."""

from __future__ import annotations

from torch import Tensor

from similis.objective.comparison.compare import compare
from similis.objective.terms.reductions import count, total
from similis.objective.references import References
from similis.registry import Cost, register_loss


@register_loss(
    family="pair", geometry="cosine", input="unit", cost=Cost(time="B^2 D", memory="B^2"), paper="Nobody, 2020",
    network="none", weight="constant", relation="sets", memory=True,
)
def {name}(
    embeddings: Tensor, labels: Tensor, *, references: References | None = None, power: float = 2.0
) -> Tensor:
    r"""Negatives are at right angles.

    .. math:: L = mean_{{y_i \\ne y_j}} |S_{{ij}}|^p

    Args:
        embeddings: (B, D).
        labels: (B,), or a relation (B, B).
        references: columns; None for the batch.
        power: p.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: never.

    Example:
        >>> import torch
        >>> float({name}(torch.eye(2), torch.tensor([0, 1])))
        0.0
    """
    p = compare(embeddings, labels, references, sphere=True)
    return p.ratio(*p.neg(lambda t: (total(t.s.abs() ** power), count(t.s == t.s))))
'''

PROOF = """from tests.plain import dot, mean, negatives, on_sphere


def oracle(x, labels, learned, options):
    x = on_sphere(x)
    return mean([dot(x[i], x[j]).abs() ** options["power"] for i in range(len(x)) for j in negatives(i, labels)])


ORACLES = {"default": oracle}


def test_the_oracle_sees_right_angles():
    import torch

    assert float(oracle(torch.eye(3, dtype=torch.float64), [0, 1, 2], {}, {"power": 2.0})) == 0.0
"""


def run(folder: Path, *arguments: str, path: tuple[Path, ...] = ()) -> str:
    """Standard output of this Python in ``folder`` with ``path`` before everything installed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture
def checkout(tmp_path):
    """A copy of the package, its tests and their settings."""
    for part in ("src", "tests"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_loss_is_two_files(checkout):
    name = "right_angles"
    (checkout / f"src/similis/objective/losses/{name}.py").write_text(LOSS.format(name=name))
    (checkout / f"tests/objective/losses/test_{name}.py").write_text(PROOF)
    path = (checkout / "src", checkout)
    asked = ["tests/contracts/test_losses.py", f"tests/objective/losses/test_{name}.py"]
    options = ["-k", name, "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", "-v"]
    said = run(checkout, "-m", "pytest", *asked, *options, path=path)
    passed = [line for line in said.splitlines() if "PASSED" in line and f"[{name}:default-" in line]
    assert len(passed) == 16, said  # all but compile, which is a long proof for forms that are not the one of a shape
    assert "test_the_oracle_sees_right_angles PASSED" in said
