"""What ``similis train`` says before it trains and at its end."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from similis.cli.screen import console, print_lines, show_table
from similis.engine.device import GIB
from similis.run.checks import check_run
from similis.run.cost import estimate_seconds, format_duration, measure_step
from similis.run.fitted_settings import ENOUGH_CLASSES, ENOUGH_IMAGES, learns_from_images, step_memory
from similis.run.parts import Source
from similis.run.prepared import Prepared
from similis.run.protocol import training_steps
from similis.run.result import RunResult
from similis.run.spec import RunSpec
from similis.run.untouched import best_before, describe_changes, measured_networks, training_verdict

COLOURS = {"helped": "bold green", "hurt": "bold red"}
LARGE_GAP = 0.1  # of R@1, between validation and test


def show_plan(run: Prepared) -> None:
    """Print the plan of a run that is not done yet, unless its data cannot make it."""
    spec, source = run.spec, run.source
    check_run(spec, source)
    counts = count_parts(spec, source)
    words = ", ".join(f"{images:,} of {classes:,} classes {part}" for part, (images, classes) in counts.items())
    empty, lines = source.manifest.empty_folders or (), [("images", words)]
    if empty:
        shown = ", ".join(map(repr, empty[:3])) + (", ..." if len(empty) > 3 else "")
        lines.append(("left out", f"{len(empty)} folders without images: {shown}"))
    images, classes = counts.get("validate", (ENOUGH_IMAGES, ENOUGH_CLASSES))
    if images < ENOUGH_IMAGES or classes < ENOUGH_CLASSES:
        words = "add classes, or fix the number with --epochs N --set training.select=last"
        lines.append(("note", f"too few validation images to choose the number of epochs well; {words}"))
    if learns_from_images(spec) and spec.training.epochs:
        lines.append(("plan", describe_cost(run)))
    print_lines(*(f"{name:<12}{words}" for name, words in lines))


def describe_cost(run: Prepared) -> str:
    """Settings, time and memory in one line, by a measured step."""
    batch, pixels, each = run.spec.training.batch_size, run.network.cost()[0], measure_step(run)
    memory = (each.memory or step_memory(run, batch)) / GIB
    decoded = min(run.machine.cache_bytes, len(run.manifest) * 3 * (2 * pixels) ** 2) / GIB
    seconds = format_duration(estimate_seconds(run.spec, run.source.split, each))
    size = f"{pixels} pixels, batches of {batch}, {run.machine.workers} loader processes"
    return f"{size}: at most about {seconds}, {memory:.1f} GB, and up to {decoded:.1f} GB for decoded images"


def count_parts(spec: RunSpec, source: Source) -> dict[str, tuple[int, int]]:
    """How many images of how many classes train, validate and test; parts without images are left out."""
    split, steps = source.split, training_steps(spec, source.split)
    none = split.test[:0]
    parts = {
        "train": steps[0].rows if steps else none,
        "validate": steps[0].judged_on if steps and not steps[0].opens_test else none,
        "test": split.test if spec.evaluation.test else none,
    }
    return {name: (len(rows), len(source.manifest.classes(rows))) for name, rows in parts.items() if len(rows)}


def report(result: RunResult) -> None:
    """The answer in colour, the networks that were measured, what to do next."""
    if result.before:
        words, _, rest = training_verdict(result.before, result.spec.model).partition(". ")
        row = best_before(result.before)
        changes = "" if "fixed" not in row else describe_changes(row)  # runs of earlier versions did not count
        colour = next((colour for word, colour in COLOURS.items() if f" {word}:" in words), "bold yellow")
        print_lines("", words.removesuffix(".") + ".", style=colour)
        print_lines(f"{rest} {changes}".strip())
    if result.test:
        show_table("", ("network", "R@1 %", "MAP@R %", "training gained (95 % interval)"), measured_rows(result))
    print_lines(*remarks(result))
    commands = next_commands(result)
    width = max(map(len, commands))
    fits = width + max(map(len, commands.values())) + 4 <= console().width
    print_lines("", "next")
    for command, why in commands.items():
        print_lines(*([f"  {command:<{width}}  {why}"] if fits else [f"  {command}", f"      {why}"]))
    print_lines("", f"run folder  {result.folder}")


def measured_rows(result: RunResult) -> list[tuple[str, str, str, str]]:
    """The networks that were measured, in per cent, with the gain of training over each in points."""
    rows = []
    for name, recall, precision, gain in measured_networks(result.to_json()):
        value, low, high = (f"{100 * part:+.1f}" for part in gain or (0.0, 0.0, 0.0))
        rows.append(
            (name, f"{100 * recall:.1f}", f"{100 * precision:.1f}", f"{value} ({low} to {high})" if gain else "")
        )
    return rows


def next_commands(result: RunResult) -> dict[str, str]:
    """Three commands that make sense after this run, with what each is for."""
    source = result.spec.data.source
    source = min(source, os.path.relpath(source), key=len) if Path(source).exists() else source
    source, folder = shlex.quote(source), shlex.quote(str(result.folder))
    check = {f"similis data check {source}": "find wrong labels and duplicates"}
    if result.before and best_before(result.before)["gain"].get("recall@1", (0, 0, 0))[2] < 0:
        commands = {f"similis train {source} --head whitening": "a head in closed form, in seconds"}
        pixels, own = best_before(result.before)["pixels"], result.facts["preprocessing"]
        if own is not None and own["size"] < pixels:
            commands[f"similis train {source} --size {pixels}"] = "at the resolution of the pretrained network"
        else:
            commands[f"similis train {source} --recipe careful"] = "no new head, as much training as helps"
        return commands | check
    return {
        f"similis search {folder} PHOTO": "find the photos most similar to one",
        f"similis export {folder} my-search": "a search for `similis serve my-search`",
    } | check


def remarks(result: RunResult) -> list[str]:
    """What a reader of the numbers should know: that nothing was held out, or why validation is far above test."""
    images, classes = result.facts["images"], result.facts.get("classes", {})
    if not images["test"]:
        return [
            "No class was held out, so nothing measures how well unseen classes are found. "
            "Train without --all-classes to measure it and to choose the number of epochs by validation."
        ]
    if result.selected_on != "validation" or not result.test or not classes:
        return []
    gap = result.validation["recall@1"] - result.test["recall@1"]
    if gap < LARGE_GAP or classes["validation"] >= classes["test"]:
        return []
    chose, tested = (f"{images[part]} images of {classes[part]} classes" for part in ("validation", "test"))
    return [
        f"Validation R@1 is {100 * gap:.0f} points above test R@1 because fewer classes can be confused: {chose} "
        f"validate, {tested} test. Expect the test figure on new classes."
    ]
