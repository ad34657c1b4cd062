"""The report: groups of figures, what each says in a sentence, and one sentence on the whole for an issue."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import torch

from similis.doctor.costs import check_memory, check_speed
from similis.doctor.losses import WAYS, Figure, check_losses
from similis.doctor.ranks import check_ranks
from similis.engine.device import choose_device, describe_device
from similis.registry import losses

GROUPS = ("losses", "compiled", "ranks", "memory", "speed")


class Group(NamedTuple):
    """A group of checks: right, wrong or (None) without a verdict, a sentence, its seconds and figures."""

    name: str
    right: bool | None
    sentence: str
    seconds: float
    figures: list[Figure]


def run_checks(device: str, ranks: int, names: Sequence[str], seed: int, groups: Sequence[str]) -> Iterator[Group]:
    """Each group of checks as it ends.

    Args:
        device: by name.
        ranks: processes of the check of ranks; 1 leaves it out.
        names: of losses; all without names.
        seed: of the batches.
        groups: names of the groups to run, of ``GROUPS``.
    """
    here = choose_device(device)
    for name in names:
        losses.get(name)  # raises for an unknown one, before anything runs
    checks: dict[str, Callable[[], Iterable[Figure]]] = {
        "losses": lambda: check_losses(here, names, seed),
        "compiled": lambda: check_losses(here, names, seed, compiled=True),
        "ranks": lambda: check_ranks(here, ranks, names, seed) if ranks > 1 else (),
        "memory": lambda: check_memory(here, names),
        "speed": lambda: check_speed(here, names),
    }
    for name in groups:
        begin, found = time.perf_counter(), list[Figure]()
        try:
            found.extend(checks[name]())
        except Exception as error:  # a broken device raises anything, and the other groups still say something
            found.append(Figure(name, "all", right=False, error=f"{type(error).__name__}: {error}"))
        wrong = [each for each in found if each.right is False]
        right = not wrong if wrong or any(each.right for each in found) else None
        yield Group(name, right, describe(name, found, wrong), time.perf_counter() - begin, found)


def describe(name: str, figures: Sequence[Figure], wrong: Sequence[Figure]) -> str:
    """A group in a sentence."""
    right = [each for each in figures if each.right]
    if wrong:
        first = wrong[0]
        why = " ".join(first.error.split()[:40]) or f"value off by {first.value:.1e}, gradient by {first.gradient:.1e}"
        return f"{len(wrong)} of {len(figures)} failed, first {first.case}, {first.way}: {why}"
    if name == "speed":
        return "; ".join(each.error or f"{each.case} {each.value:.1f} ({each.way})" for each in figures)
    if not right:
        return "not measured" + "".join(f": {each.error}" for each in figures[:1] if each.error)
    if name == "memory":
        return f"at most {max(each.value for each in right):.0%} of the plan in {len(right)} steps"
    worst = max(right, key=lambda each: each.gradient)
    return f"{len(right)} comparisons agree; largest difference {worst.gradient:.0e} ({worst.case}, {worst.way})"


def write_report(device: str, groups: Sequence[Group]) -> dict[str, Any]:
    """Every figure with versions and the name of the device, and a sentence for an issue."""
    here, wrong = describe_device(choose_device(device)), [group.name for group in groups if group.right is False]
    versions = {"similis": version("similis"), "torch": torch.__version__, "python": platform.python_version()}
    system = f"{platform.system()} {platform.machine()}"
    words = ", ".join(f"{name} {which}" for name, which in (versions | {"on": system}).items())
    told = [(g.name, [f.right for f in g.figures if f.right is not None]) for g in groups]
    counts = ", ".join(f"{name} {sum(right)} of {len(right)}" for name, right in told if right)
    checked = any(group.right for group in groups)
    verdict = f"FAILED: {', '.join(wrong)}" if wrong else "all checks passed" if checked else "nothing was checked"
    return {
        "sentence": f"similis doctor, {here}: {verdict} ({counts}; {words}).",
        "right": not wrong, "device": here, "platform": system, "versions": versions,
        "tolerances": {name: way.tolerances for name, way in WAYS.items()}, "groups": groups,
    }  # fmt: skip
