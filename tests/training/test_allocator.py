"""Freed memory stays: the page faults of repeated large blocks vanish, in a fresh process."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import torch
from similis.training.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def churn():
    for _ in range(20):
        torch.ones(2**23)
churn()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
churn()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_blocks_are_reused():
    faults = {
        way: int(subprocess.run([sys.executable, "-c", FAULTS, way], capture_output=True, check=True).stdout)
        for way in ("keep", "usual")
    }
    # 20 blocks of 32 MiB: at least 16 pages of 2 MiB each where they are mapped anew, none where they are kept.
    assert faults["usual"] >= 20 * 16
    assert faults["keep"] < 100
