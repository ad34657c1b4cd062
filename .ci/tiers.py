"""The tiers of long proofs, what each is a proof of, and for which contents of it the proof was last green.

    python .ci/tiers.py show            # tiers whose proof is not of the code as it is
    python .ci/tiers.py prove [TIER]    # run those, or the named ones; .ci/proved.toml keeps each that is green

A tier is a list of test files, of which it runs the tests marked ``slow``, or a command of its own.
"""

import hashlib
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

PROVED = Path(".ci/proved.toml")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "--timeout", "3600")


class Tier(NamedTuple):
    """What a tier runs (test files and folders), and the source whose change makes its proof old."""

    tests: tuple[str, ...]
    of: tuple[str, ...]


OBJECTIVE, ENGINE = "src/similis/objective", "src/similis/engine"
TIERS = {
    "accelerator": Tier(("tests/accelerator",), (OBJECTIVE, ENGINE, "src/similis/training", "src/similis/run")),
    "devices": Tier((), (OBJECTIVE, "src/similis/retrieval")),
    "losses": Tier(
        (
            "tests/contracts", "tests/objective", "tests/hostile/test_losses.py", "tests/hostile/test_scales.py",
            "tests/hostile/test_transforms.py", "tests/hostile/test_aliasing.py", "tests/hostile/test_empty_batches.py",
            "tests/hostile/test_transport.py", "tests/docs/test_generated.py",
        ),
        (OBJECTIVE,),
    ),
    "ranks": Tier(("tests/multiprocess",), (OBJECTIVE, ENGINE, "src/similis/training")),
    "kills": Tier(
        (
            "tests/run", "tests/hostile/test_run_folders.py", "tests/hostile/test_saving.py",
            "tests/hostile/test_disks.py", "tests/hostile/test_silences.py", "tests/study",
            "tests/serving/test_durability.py", "tests/model",
        ),
        ("src/similis/run", "src/similis/training", "src/similis/study", "src/similis/serving", "src/similis/model"),
    ),
    "ray": Tier(
        ("tests/engine", "tests/docs/test_examples.py"), (ENGINE, "src/similis/run/distributed.py", "examples")
    ),
    "trainers": Tier(("tests/docs/test_trainers.py",), ("examples/trainers", OBJECTIVE, ENGINE)),
    "statistics": Tier(
        ("tests/statistics", "tests/retrieval"), ("src/similis/study/statistics", "src/similis/retrieval")
    ),
    "server": Tier(("tests/serving", "tests/cli"), ("src/similis/serving", "src/similis/cli")),
    "data": Tier(("tests/data", "tests/hostile/test_images.py"), ("src/similis/data",)),
    "doctor": Tier(("tests/doctor",), ("src/similis/doctor", OBJECTIVE, ENGINE)),
    "extras": Tier((), ("pyproject.toml", ".ci/extras.py")),
}  # fmt: skip


def contents(tier: Tier) -> str:
    """A hash of the files that the tier is a proof of, and of its tests."""
    listed = subprocess.run(["git", "ls-files", "-z", *tier.of, *tier.tests], capture_output=True, check=True).stdout
    digest = hashlib.sha256()
    for name in sorted(filter(None, listed.decode().split("\0"))):
        if Path(name).exists():
            digest.update(f"{name}\0".encode() + Path(name).read_bytes())
    return digest.hexdigest()[:16]


def proved() -> dict[str, str]:
    """Tier -> the contents for which it was last green."""
    return tomllib.loads(PROVED.read_text())["proved"] if PROVED.exists() else {}


def stale() -> list[str]:
    """The tiers whose proof is of other contents."""
    held = proved()
    return [name for name, tier in TIERS.items() if held.get(name) != contents(tier)]


def prove(name: str) -> None:
    """Run a tier; note it if it is green."""
    tier = TIERS[name]
    print(f"== {name}", flush=True)
    if name == "extras":  # in clean environments, and every dependency at its lower bound
        with tempfile.TemporaryDirectory() as wheels:
            subprocess.run(
                [sys.executable, "-m", "build", "--no-isolation", "--outdir", wheels, "."],  # the wheel from the sdist
                check=True,
                stdout=subprocess.DEVNULL,
            )
            subprocess.run([sys.executable, ".ci/extras.py", wheels], check=True)
    elif name == "devices":  # the ordinary tests, with the emulated device as the default
        plugin = ("-p", "tests.accelerator.default_device", "-m", "not slow")
        subprocess.run([*PYTEST, *plugin, "tests/objective", "tests/retrieval"], check=True)
    else:
        subprocess.run([*PYTEST, "-m", "slow", *tier.tests], check=True)
    held = proved() | {name: contents(tier)}
    PROVED.write_text("[proved]  # tier = contents that it was last green for, by .ci/slow\n" + "".join(
        f'{key} = "{held[key]}"\n' for key in TIERS if key in held
    ))  # fmt: skip


def main() -> None:
    """Show or prove."""
    verb, *names = sys.argv[1:]
    unknown = set(names) - set(TIERS)
    if unknown:
        sys.exit(f"no tier {sorted(unknown)}; there are {', '.join(TIERS)}")
    if verb == "show":
        old = stale()
        print(f"long proofs to renew with .ci/slow: {', '.join(old)}" if old else "all long proofs are current")
        return
    for name in names or stale():
        prove(name)


if __name__ == "__main__":
    main()
