"""Requests that schemathesis makes from the OpenAPI description: no failure, and answers as described."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving.running import KEY

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_requests_for_each_operation(server, tmp_path):
    program = shutil.which("schemathesis", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("schemathesis is not installed")
    words = [program, "run", f"{server.address}/openapi.json", "--checks", CHECKS, "--phases",
             "examples,coverage,fuzzing", "-n", "200", "--seed", "7", "--request-timeout", "60",
             "--header", f"Authorization: Bearer {KEY}", "--no-color", "--suppress-health-check", "all"]  # fmt: skip
    found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=3000, check=False)
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
    assert "16 selected" in found.stdout or "16 tested" in found.stdout, found.stdout[-3000:]
    assert server.get("/health").status_code == 200
