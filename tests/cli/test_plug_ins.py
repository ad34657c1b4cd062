"""Plug-ins of other distributions, in a process of its own as a user starts it."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from similis.cli import main
for words in sys.argv[1:]:
    try:
        main(words.split())
    except SystemExit as end:
        print("code", end.code or 0, file=sys.stderr)
"""
TRAIN = "train synthetic?classes=8&images=4&size=16 --backbone small_conv --size 16 --dim 8 --epochs 1 --no-pictures"


@pytest.fixture
def broken(tmp_path):
    """The environment of a process in which a distribution with a broken loss is installed."""
    (tmp_path / "their_losses.py").write_text("import a_module_that_nobody_has\n")
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[similis.losses]\ntheir_loss = their_losses\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


def test_every_verb_works_beside_a_broken_plug_in_and_its_own_loss_says_why_it_is_missing(broken, tmp_path):
    words = ["losses", "losses --miners", "losses show triplet", f"{TRAIN} --runs {tmp_path / 'runs'}"]
    words += [f"{TRAIN} --loss their_loss"]
    command = [sys.executable, "-c", SCRIPT, *words]
    done = subprocess.run(command, env=broken, capture_output=True, text=True, check=True)
    said = done.stderr.splitlines()
    assert "Traceback" not in done.stderr
    assert [line for line in said if line.startswith("code")] == ["code 0"] * 4 + ["code 2"]
    reason = "the plug-in their_loss (their_losses) cannot be imported: ModuleNotFoundError: No module named"
    assert said[0].startswith(reason)
    assert len(said) == 1 + len(words) + 1  # one warning, and one sentence about the loss that is not there
    assert said[-2].startswith("similis: unknown loss 'their_loss'")
    assert reason in said[-2]
    assert "MAP@R %" in done.stdout
