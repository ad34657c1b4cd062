"""Does ``similis doctor`` name planted faults, and does it stay silent without one?

``python -m benchmarks.doctor_mutants draw FILE`` draws 40 changes of the device and rank paths with a fixed seed,
``run FILE [--only N ...]`` plants each in a copy of ``src`` and lets the doctor look, first on the processor, then
on the emulated device; ``clean FILE --seeds 50`` looks at the source as it is, other batches; ``show FILE`` counts.
Records are kept in the file as they are made, and what is known is not run again. A change that no output shows is
named in ``equivalent`` of the file, by hand and with its reason.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SEED, COUNT, SECONDS = 41, 40, 900
PLACES = [
    f"src/similis/{place}"
    for place in (
        "objective/backends", "objective/terms", "objective/ranks.py", "objective/host_copies.py",
        "objective/references.py", "objective/class_shards.py", "objective/sharding.py", "engine/collectives.py",
    )
]  # fmt: skip
MUTANTS = runpy.run_path(".ci/mutants.py", run_name="mutants")
LOOK = """
import sys
from similis.doctor import report
def until_wrong(check):  # the rest of a group that is wrong says no more
    def checked(*given, **options):
        for figure in check(*given, **options):
            yield figure
            if figure.right is False:
                return
    return checked
if __name__ == "__main__":
    report.check_losses = until_wrong(report.check_losses)
    device, seed, groups = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
    for group in report.run_checks(device, 2, (), seed, groups):
        print(group.right, group.name, group.sentence, flush=True)
        if group.right is False:
            sys.exit(1)
"""
SITE = """
from tests.accelerator import emulator
emulator.load()
from tests.accelerator.group import register_group
register_group()
"""


def draw() -> list[dict[str, object]]:
    """Changes over all nodes of the places alike."""
    found = []
    for place in map(Path, PLACES):
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            found += [[str(path), f, b, o, a] for f, b, o, a, _ in MUTANTS["sites"](path.read_text())]
    drawn = random.Random(SEED).sample(found, COUNT)
    return [dict(zip(MUTANTS["Mutant"]._fields, each, strict=True)) for each in drawn]


def look(tree: Path, device: str, seed: int, groups: str) -> dict[str, object]:
    """What the doctor says of the source in a tree: ``named``, ``silent``, ``stopped`` or ``no end``."""
    (tree / "look.py").write_text(LOOK)
    (tree / "site").mkdir(exist_ok=True)
    (tree / "site/sitecustomize.py").write_text(SITE)
    paths = [tree / "src", Path.cwd()] + [tree / "site"] * (device == "emulated")
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, paths)), "OMP_NUM_THREADS": "1"}
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, str(tree / "look.py"), device, str(seed), groups],
            cwd=tree, env=environment, stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = None
        said.seek(0)
        words = said.read().strip().splitlines()[-1:]
    named = "".join(words).startswith("False")  # else the doctor itself could not work: an import fails, say
    state = {0: "silent", None: "no end"}.get(code, "named" if named else "stopped")
    return {"state": state, "by": device, "said": "".join(words)[:300], "seconds": round(time.monotonic() - begin)}


def copy_source(tree: Path) -> None:
    """The source; the emulated device comes from the tests beside it, and is built once."""
    shutil.copytree("src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))


def try_mutant(mutant: dict[str, object]) -> dict[str, object]:
    """Plant a change in a copy of the source and look at it on both devices until it is named."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_source(tree)
        found = MUTANTS["find"](tree, MUTANTS["Mutant"](**mutant))
        if found is None:
            return {"state": "gone with its code"}
        path, place = found
        path.write_text(MUTANTS["edit"](path.read_text(), place, str(mutant["after"])))
        for device, groups in (("cpu", "losses,ranks"), ("emulated", "losses,ranks"), ("cpu", "compiled,memory")):
            said = look(tree, device, 0, groups)
            if said["state"] != "silent":
                break
        return said


def main() -> None:
    """Draw, run, or count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["draw", "run", "clean", "show"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of mutants")
    parser.add_argument("--seeds", type=int, default=50)
    given = parser.parse_args()
    kept = json.loads(given.file.read_text()) if given.file.exists() else {"seed": SEED}
    for key in ("runs", "clean", "equivalent"):
        kept.setdefault(key, {})
    kept["mutants"] = kept.get("mutants") or draw()
    keys = {"run": given.only or range(len(kept["mutants"])), "clean": range(1, given.seeds + 1)}.get(given.verb, ())
    records = kept["runs" if given.verb == "run" else "clean"]
    given.file.write_text(json.dumps(kept, indent=1) + "\n")
    for number in (key for key in keys if str(key) not in records):
        if given.verb == "run":
            records[str(number)] = try_mutant(kept["mutants"][number])
        else:
            with tempfile.TemporaryDirectory() as folder:
                copy_source(Path(folder))
                records[str(number)] = look(Path(folder), "cpu", number, "losses,ranks")
        print(number, records[str(number)], flush=True)
        given.file.write_text(json.dumps(kept, indent=1) + "\n")
    silent = [key for key, run in kept["runs"].items() if run["state"] == "silent" and key not in kept["equivalent"]]
    changing = len(kept["runs"]) - len(kept["equivalent"])
    print(f"{changing - len(silent)} of {changing} mutants that change a value are named; silent: {silent or 'none'}")
    alarms = [key for key, run in kept["clean"].items() if run["state"] != "silent"]
    print(f"{len(kept['clean'])} clean runs, false alarms with the seeds: {alarms or 'none'}")


if __name__ == "__main__":
    main()
