"""``similis train`` in a real terminal: a bar for every phase, the answer in colour, long lines that hang."""

import os
import pty
import re
import subprocess
import sys

import pytest

from similis.cli.screen import print_lines

WORDS = ["train", "synthetic?classes=12&images=6&size=16", "--backbone", "small_conv", "--size", "16", "--dim", "8",
         "--epochs", "1", "--no-pictures", "--set", "model.trains=head"]  # fmt: skip


def in_terminal(program: str, folder, columns: int) -> str:
    """What a Python program prints to a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    process = subprocess.Popen([sys.executable, "-c", program], cwd=folder, env=env, stdout=theirs, stderr=theirs)
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # nobody holds the other end any more
            part = b""
        if not part:
            break
        parts.append(part)
    assert process.wait() == 0
    os.close(ours)
    return b"".join(parts).decode()


@pytest.mark.slow
def test_every_phase_has_a_bar_that_is_full_at_its_end(tmp_path):
    seen = in_terminal(f"from similis.cli import main; main({WORDS})", tmp_path, 120)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    whole = [line for line in re.split(r"[\r\n]+", plain) if re.search(r" (\d+)/\1 ", line)]
    for phase in ("embedding, once ", "training ", "evaluating on unseen classes ", "before training, 32 pixels "):
        assert any(phase in line for line in whole), phase
    assert re.search(r"\x1b\[1;3[123]m(Training|No significant)", seen)  # green, red or yellow


def test_a_long_line_hangs_below_its_words(tmp_path):
    line = "reading     " + "word " * 20
    seen = in_terminal(f"from similis.cli.screen import print_lines; print_lines({line!r})", tmp_path, 60)
    first, *others = seen.split("\r\n")
    assert first.startswith("reading     word")
    assert others
    assert all(re.match(r" {12}word", each) for each in others if each)


def test_a_pipe_gets_lines_as_they_are(capsys):
    line = "reading     " + "word " * 60
    print_lines(line, style="bold red")
    assert capsys.readouterr().out == line + "\n"
