"""A shell completes what the registry knows; each case starts the program anew."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "words", ["train photos --loss", "compare photos --loss", "compare photos --against", "losses show"]
)
def test_a_shell_completes_the_names_of_losses(words):
    asked = {
        "_SIMILIS_COMPLETE": "complete_bash",
        "COMP_WORDS": f"similis {words} proxy_a",
        "COMP_CWORD": str(len(words.split()) + 1),
    }
    code = "from similis.cli import main; main([])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["proxy_anchor"], done
