"""The tests of what a diff touches, by imports: python .ci/touched.py [BASE] [-- options of pytest]

A test file is run if it was changed, or if it imports a changed module, or a module that imports a changed one. The
tests of a loss or a miner are also the contracts with its name, which find it in the registry. BASE is a commit;
without one, what is not committed counts.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

CONTRACTS = {  # folder of registered functions -> tests that go through the registry
    "losses": ("tests/contracts",),
    "miners": (
        "tests/objective/miners/test_every_miner.py", "tests/objective/test_mining.py",
        "tests/hostile/test_empty_batches.py",
    ),
}  # fmt: skip


def changed(base: str) -> set[Path]:
    """Python files that differ from a commit, and new ones."""
    listed = subprocess.run(["git", "diff", "--name-only", base], capture_output=True, text=True, check=True).stdout
    new = subprocess.run(["git", "ls-files", "-o", "--exclude-standard"], capture_output=True, text=True, check=True)
    return {Path(name) for name in (listed + new.stdout).split() if name.endswith(".py") and Path(name).exists()}


def module_name(path: Path) -> str:
    """The dotted name of a file."""
    parts = path.with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """The modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def reached_tests(diff: set[Path]) -> list[str]:
    """The test files of a diff."""
    files = [path for folder in ("src", "tests", "benchmarks", "docs") for path in Path(folder).rglob("*.py")]
    needs = {path: imports(path) for path in files}
    reached = {module_name(path) for path in diff}
    reached |= {module_name(path) for path, own in needs.items() if own & reached}
    tests = {path for path, own in needs.items() if path.name.startswith("test_") and (own & reached or path in diff)}
    return sorted(map(str, tests))


def main() -> None:
    """Find the tests and run them."""
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    diff = changed(words[0] if cut else "HEAD")
    tests = reached_tests(diff)
    print(f"{len(diff)} changed files, {len(tests)} test files", flush=True)
    pytest = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *words[cut + 1 :]]
    calls = [[*pytest, *tests]] if tests else []
    for kind, contracts in CONTRACTS.items():
        stems = [path.stem for path in diff if path.parent.name == kind and path.stem != "__init__"]
        names = [stem.removeprefix("test_") for stem in stems]
        calls += [[*pytest, *contracts, "-k", " or ".join(names)]] if names else []
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(max((subprocess.run(call, check=False).returncode for call in calls), default=0))


if __name__ == "__main__":
    main()
