"""How large the project is: printed by every run of the checks, and no Python file over 300 lines."""

import ast
import subprocess
import sys
from pathlib import Path

LIMIT = 300


def lines(paths: list[Path]) -> int:
    """Lines of all files."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def public_classes(paths: list[Path]) -> int:
    """Classes of modules whose name has no underscore in front."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in paths)
    return sum(isinstance(n, ast.ClassDef) and not n.name.startswith("_") for tree in trees for n in tree.body)


def main() -> None:
    """Print the counts; fail where a file is too long."""
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    tracked = [Path(name) for name in listed.split("\0") if name and Path(name).exists()]
    python = [path for path in tracked if path.suffix == ".py"]
    source = [path for path in python if path.parts[0] == "src"]
    tests = [path for path in python if path.parts[0] == "tests"]
    print(
        f"source {lines(source)} lines in {len(source)} modules with {public_classes(source)} public classes; "
        f"tests {lines(tests)} lines; {len(tracked)} tracked files"
    )
    long = {str(path): count for path in python if (count := lines([path])) > LIMIT}
    if long:
        sys.exit(f"over {LIMIT} lines, split them by meaning: {long}")


if __name__ == "__main__":
    main()
