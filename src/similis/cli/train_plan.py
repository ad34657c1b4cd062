"""What ``similis train`` says before it trains: images, settings, memory, time."""

from __future__ import annotations

from collections.abc import Mapping

from similis.cli.screen import console
from similis.cli.train_defaults import ENOUGH_CLASSES, ENOUGH_IMAGES, learns_from_images, network_cost, step_memory
from similis.engine.device import GIB, count_cores, total_memory
from similis.run.checks import check_run
from similis.run.cost import estimate_seconds, format_duration, time_images
from similis.run.machine import Machine
from similis.run.parts import Source
from similis.run.protocol import training_steps
from similis.run.spec import RunSpec

WORDS = {
    "select": "to choose the number of epochs",
    "refit": "at most to train again on all training classes",
    "evaluation": "to evaluate",
}


def show_plan(spec: RunSpec, machine: Machine, source: Source) -> None:
    """Print the plan of a run that is not done yet; a run that cannot be is refused first."""
    check_run(spec, source)
    for name, words in plan_lines(spec, machine, source):
        console().print(f"{name:<12}{words}", markup=False, soft_wrap=True)


def plan_lines(spec: RunSpec, machine: Machine, source: Source) -> list[tuple[str, str]]:
    """Lines of the plan: name, words."""
    empty, t = source.manifest.empty_folders or (), spec.training
    lines = [("images", describe_split(spec, source))]
    if empty:
        shown = ", ".join(map(repr, empty[:3])) + (", ..." if len(empty) > 3 else "")
        lines.append(("left out", f"{len(empty)} folders without images: {shown}"))
    if few_choose(spec, source):
        words = "add classes, or fix the number with --epochs N --set training.select=last"
        lines.append(("note", f"the validation images are too few to choose the number of epochs well; {words}"))
    if not learns_from_images(spec) or not t.epochs:
        return lines
    pixels, timed = network_cost(spec)[0], time_images(spec, machine, source)
    memory = (timed.memory or step_memory(spec, t.batch_size)) / GIB
    kept = decoded_bytes(machine, source, pixels) / GIB
    where = "" if machine.chosen.type == "cpu" else f" on {machine.chosen}"
    there = f"{count_cores()} cores, {total_memory(machine.chosen)} GB of memory{where}"
    seconds = estimate_seconds(spec, source.split, timed, loaders=machine.workers)
    return [
        *lines,
        ("settings", f"{pixels} pixels, batches of {t.batch_size}, {machine.workers} loader processes ({there})"),
        ("memory", f"about {memory:.1f} GB, and up to {kept:.1f} GB for decoded images"),
        ("time", describe_time(seconds)),
    ]


def decoded_bytes(machine: Machine, source: Source, pixels: int) -> int:
    """Bytes of decoded images that are kept at most: all of them at twice the pixels of a side, or the limit."""
    return min(machine.cache_bytes, len(source.manifest) * 3 * (2 * pixels) ** 2)


def describe_split(spec: RunSpec, source: Source) -> str:
    """How many images of how many classes train, validate and test."""
    split, steps = source.split, training_steps(spec, source.split)
    none = split.test[:0]
    parts = {
        "train": steps[0].rows if steps else none,
        "validate": steps[0].judged_on if steps and not steps[0].opens_test else none,
        "test": split.test if spec.evaluation.test else none,
    }
    counts = {name: (len(rows), len(source.manifest.classes(rows))) for name, rows in parts.items()}
    return ", ".join(f"{rows:,} of {classes:,} classes {name}" for name, (rows, classes) in counts.items() if rows)


def few_choose(spec: RunSpec, source: Source) -> bool:
    """Whether validation chooses the number of epochs with too few classes or images."""
    steps = training_steps(spec, source.split)
    if not steps or steps[0].opens_test or not len(steps[0].judged_on):
        return False
    rows = steps[0].judged_on
    return len(rows) < ENOUGH_IMAGES or len(source.manifest.classes(rows)) < ENOUGH_CLASSES


def describe_time(seconds: Mapping[str, float]) -> str:
    """The stages of a run with their time.

    Example:
        >>> describe_time({"refit": 190.0, "evaluation": 31.0})
        'about 4 min: 3 min to train, 31 s to evaluate'
    """
    words = WORDS if "select" in seconds else {**WORDS, "refit": "to train"}
    parts = ", ".join(f"{format_duration(value)} {words[stage]}" for stage, value in seconds.items() if value)
    return f"about {format_duration(sum(seconds.values()))}: {parts}"
