"""A tournament of seconds: drawn shapes of 16 pixels, a small network."""

import json
from pathlib import Path
from typing import Any

from similis.run.spec import replace_values
from similis.study.plan.plan_file import parse_plan
from similis.study.plan.schema import Plan
from similis.study.statistics.fair_table import RULE

VALUES = {
    "name": "small",
    "terms": {
        "data": {"source": "synthetic?classes=16&images=6&size=12", "validation_share": 0.25},
        "model": {"backbone": "small_conv", "weights": None, "dim": 8, "image_size": 12, "freeze_batch_norm": False,
                  "options": {"width": "slim", "depth": 1}},
        "training": {"epochs": 2, "batch_size": 20, "lr": 0.001, "refit": False, "checkpoint_steps": 1},
    },
    "contestants": ["proxy_anchor", "contrastive"],
    "sampler": "balanced",
    "search": {"trials": 1, "epochs": 2, "startup": 1},
    "repetitions": 2,
    "floors": False,
}  # fmt: skip


def values(**changes: Any) -> dict[str, Any]:
    """Plain values of a small plan with others in them; a double underscore stands for a dot."""
    return replace_values(VALUES, {key.replace("__", "."): value for key, value in changes.items()})


def plan(**changes: Any) -> Plan:
    """A small plan."""
    return parse_plan(values(**changes))


def record(
    name: str, repetition: int = 0, *, held: dict[str, Any] | None = None, hits: list[int] | None = None
) -> dict[str, Any]:
    """A final record as a run leaves it, made by hand."""
    found = hits or [3, 4, 5]
    return {
        "name": f"final-main-equal_samples-{name}-r{repetition}", "contestant": name, "loss": "triplet",
        "arena": "main", "length": "equal samples", "repetition": repetition, "run": 0, "fold": 0,
        "held": held or {"model.dim": 8}, "rule": RULE,
        "spec": {
            "seed": repetition, "data": {"validation_seed": repetition}, "training": {"sampler": "balanced"},
            "objective": {"preset": "paper", "options": {"margin": 0.5}},
        },
        "per_class": {"labels": list(range(len(found))), "queries": [6] * len(found), "hits": found},
    }  # fmt: skip


def without_cost(folder: Path) -> dict[str, Any]:
    """All records of a tournament, times and memory aside."""
    found = {}
    for path in sorted((folder / "records").glob("*.json")):
        kept = json.loads(path.read_text())
        kept.pop("cost", None)
        found[path.name] = kept
    return found
