"""How large the project is: no Python file over 300 lines, and no count above its ceiling in ``pyproject.toml``.

Code lines have no blanks, comments and docstrings. A ceiling is raised in the commit that needs it, which says what
left for it.
"""

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

LIMIT = 300
MOST_FILES = 25  # of a package on one level; one file a loss apart


def tracked_files() -> list[Path]:
    """The files of the repository as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name and Path(name).exists()]


def code_lines(path: Path) -> int:
    """Lines of a file without blanks, comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            prose |= set(range(first.lineno, first.end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in prose for number, line in lines
    )


def table(path: str, name: str) -> list[str]:
    """The keys of a dictionary that a module assigns to a name."""
    for node in ast.parse(Path(path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return [key.value for key in node.value.keys]
    raise SystemExit(f"{path} has no table {name}")


def options(path: str, name: str) -> int:
    """Arguments and options of a verb."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return next(len(n.args.kwonlyargs) for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)


def main() -> None:
    """Print the counts; fail where a file is too long or a count too high."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    files = [path for path in tracked_files() if path.suffix == ".py"]
    source = [path for path in files if path.parts[0] == "src"]
    counts = {
        "source": sum(map(code_lines, source)),
        "tests": sum(code_lines(path) for path in files if path.parts[0] in ("tests", "benchmarks")),
        "verbs": len(table("src/similis/cli/__init__.py", "VERBS")),
        "names": len(table("src/similis/__init__.py", "_PUBLIC")),
        "train": options("src/similis/cli/train.py", "train"),
        "extras": len(set(project["project"]["optional-dependencies"]) - {"all", "dev"}),
    }
    ceilings = project["tool"]["similis"]["ceilings"]
    for name, count in counts.items():
        print(f"{name:8} {count:7,} of at most {ceilings[name]:,}")
    long = {str(path): count for path in files if (count := len(path.read_text(encoding="utf-8").splitlines())) > LIMIT}
    if long:
        sys.exit(f"over {LIMIT} lines, split them by meaning: {long}")
    levels = Counter(str(path.parent) for path in source if path.name != "__init__.py")
    wide = {level: count for level, count in levels.items() if count > MOST_FILES and not level.endswith("losses")}
    if wide:
        sys.exit(f"more than {MOST_FILES} files on one level: {wide}")
    high = [name for name, count in counts.items() if count > ceilings[name]]
    if high:
        sys.exit(
            f"above their ceilings in pyproject.toml: {', '.join(high)}; delete something, or say what left for it"
        )


if __name__ == "__main__":
    main()
