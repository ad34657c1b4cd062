"""What the tests notice: small wrong changes of the source, each run against the tests that reach it.

    python .ci/mutants.py draw mutants.json            # once, before tests are reduced: 150 changes, seed 33
    python .ci/mutants.py probe mutants.json TREE      # a clone whose source tells which test reaches which change
    ... run the suite there with PYTHONPATH=TREE/src, PROBE=reached.txt and --junitxml times.xml ...
    python .ci/mutants.py kill mutants.json TREE reached.txt times.xml killed.json    # in a fresh clone, resumable

A change is known by its file, function and text, so that it is found again when the code around it has moved.
"""

import ast
import json
import os
import random
import subprocess
import sys
import time
import xml.etree.ElementTree
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SEED, COUNT, SECONDS = 33, 150, 120
SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
PROBE = '''"""Tells once which test reaches which change."""
import os
import torch

seen = set()

def reached(number):
    if torch.compiler.is_compiling():
        return
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if (number, test) not in seen and test:
        seen.add((number, test))
        with open(os.environ["PROBE"], "a") as file:
            file.write(f"{number}\\t{test}\\n")
'''


class Mutant(NamedTuple):
    """A change: the ``occurrence``-th node with this text in a function, and what stands there instead."""

    file: str
    function: str
    before: str
    occurrence: int
    after: str


def change(node: ast.AST) -> str | None:
    """The text of a node with one thing wrong; None where nothing is tried."""
    kinds = ast.Compare | ast.BinOp | ast.BoolOp | ast.UnaryOp | ast.Constant
    copy = ast.parse(ast.unparse(node), mode="eval").body if isinstance(node, kinds) else None
    match copy:
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            copy.ops = [SWAPS[type(op)]()]
        case ast.BinOp(op=op) if type(op) in SWAPS and not isinstance(copy.left, ast.JoinedStr):
            copy.op = SWAPS[type(op)]()
        case ast.BoolOp(op=op):
            copy.op = SWAPS[type(op)]()
        case ast.UnaryOp(op=ast.Not()):
            copy = copy.operand
        case ast.Constant(value=bool() as value):
            copy.value = not value
        case ast.Constant(value=int() | float() as value):
            copy.value = value + 1
        case _:
            return None
    return ast.unparse(copy)


def sites(text: str) -> Iterator[tuple[str, str, int, str, ast.expr]]:
    """Function, text, occurrence and change of every node inside a function that can be changed."""
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        count: dict[str, int] = defaultdict(int)
        skipped = {id(n) for a in ast.walk(function) if isinstance(a, ast.arg | ast.AnnAssign) and a.annotation
                   for n in ast.walk(a.annotation)}  # fmt: skip
        skipped |= {id(n) for a in ast.walk(function) if isinstance(a, ast.JoinedStr | ast.Raise | ast.FunctionDef)
                    and a is not function for n in ast.walk(a)}  # fmt: skip
        for node in (n for part in function.body for n in ast.walk(part) if id(n) not in skipped):
            after = change(node)
            if after is not None:
                before = ast.unparse(node)
                yield function.name, before, count[before], after, node
                count[before] += 1


def draw(place: Path) -> None:
    """Draw changes over the packages, in proportion to what each has to change, at least two of each."""
    found = defaultdict(list)
    for path in sorted(Path("src/similis").rglob("*.py")):
        package = path.relative_to("src/similis").parts[0] if path.parent.name != "similis" else "(top)"
        found[package] += [Mutant(str(path), f, b, o, a) for f, b, o, a, _ in sites(path.read_text())]
    total, generator = sum(map(len, found.values())), random.Random(SEED)
    drawn = [m for p in sorted(found) for m in generator.sample(found[p], max(2, round(COUNT * len(found[p]) / total)))]
    place.write_text(json.dumps([m._asdict() for m in drawn], indent=1) + "\n")
    print(f"{len(drawn)} of {total} changes, seed {SEED}")


def locate(text: str, mutant: Mutant) -> tuple[int, int] | None:
    """Where the mutant's node begins and ends in the bytes of its file; None where the code is gone."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for function, before, occurrence, after, node in sites(text):
        if (function, before, occurrence, after) == (mutant.function, mutant.before, mutant.occurrence, mutant.after):
            return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
    return None


def find(tree: Path, mutant: Mutant) -> tuple[Path, tuple[int, int]] | None:
    """The file of a mutant and its place there; a function may have moved to another file of its package."""
    package = Path(*Path(mutant.file).parts[:3])
    for path in (tree / mutant.file, *sorted((tree / package).rglob("*.py") if (tree / package).is_dir() else ())):
        place = locate(path.read_text(), mutant) if path.exists() else None
        if place is not None:
            return path, place
    return None


def edit(text: str, place: tuple[int, int], replacement: str) -> str:
    """A text with a replacement at a place of its bytes."""
    data = text.encode()
    return (data[: place[0]] + replacement.encode() + data[place[1] :]).decode()


def probe(mutants: list[Mutant], tree: Path) -> None:
    """Rewrite the source of a tree so that each node tells when a test reaches it."""
    (tree / "src/mutant_probe.py").write_text(PROBE)
    by_file = defaultdict(list)
    for number, mutant in enumerate(mutants):
        found = find(tree, mutant)
        if found is None:
            print(f"{number} is gone with its code")
            continue
        by_file[found[0]].append((found[1], number, mutant))
    for file, places in by_file.items():
        text, reach = file.read_text(), None
        for place, number, mutant in sorted(places, reverse=True):
            if reach is not None and place[1] > reach:
                print(f"{number} holds another one and is not probed")
                continue
            reach = place[0]
            text = edit(text, place, f"(mutant_probe.reached({number}), ({mutant.before}))[1]")
        first = "from __future__ import annotations\n"
        file.write_text(text.replace(first, f"{first}import mutant_probe\n", 1))


def kill(mutants: list[Mutant], tree: Path, reached: Path, times: Path, place: Path) -> None:
    """Run the tests that reach each change, quick ones first, until one fails; what is known is kept."""
    seconds = {}
    for case in xml.etree.ElementTree.parse(times).iter("testcase"):
        if case.find("failure") is None and case.find("error") is None:
            seconds[case.get("classname").replace(".", "/") + ".py::" + case.get("name")] = float(case.get("time"))
    tests = defaultdict(set)
    for line in reached.read_text().splitlines():
        number, test = line.split("\t")
        tests[int(number)] |= {test} & set(seconds)
    known = json.loads(place.read_text()) if place.exists() else {}
    for number, mutant in enumerate(mutants):
        if str(number) in known:
            continue
        found, begun = find(tree, mutant), time.monotonic()
        if found is None:
            known[str(number)] = {"state": "gone with its code"}
        elif not tests[number]:
            known[str(number)] = {"state": "no test reaches it"}
        else:
            text = edit(found[0].read_text(), found[1], mutant.after)
            known[str(number)] = attempt(found[0], text, tree, sorted(tests[number], key=seconds.get)[:300])
        place.write_text(json.dumps(known, indent=1) + "\n")
        print(number, mutant.file, known[str(number)], f"{time.monotonic() - begun:.0f} s", flush=True)


def attempt(path: Path, text: str, tree: Path, tests: list[str]) -> dict[str, str]:
    """Put the change in place, run the tests, and put the file back."""
    held = path.read_text()
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            words, cwd=tree, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {"state": f"alive after {SECONDS} s"}
    finally:
        path.write_text(held)
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return {"state": "killed", "by": failed[0] if failed else "collection"} if done.returncode else {"state": "alive"}


if __name__ == "__main__":
    verb, listed, *places = sys.argv[1:]
    if verb == "draw":
        draw(Path(listed))
    else:
        mutants = [Mutant(**entry) for entry in json.loads(Path(listed).read_text())]
        {"probe": probe, "kill": kill}[verb](mutants, *map(Path, places))
