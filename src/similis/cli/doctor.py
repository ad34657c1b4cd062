"""``similis doctor``: check losses, ranks, memory and speed on this machine's device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from similis.cli.json_output import Outcome, plain_values
from similis.cli.options import Device
from similis.cli.screen import console, print_lines

MARKS = {True: ("✓", "ok"), False: ("✗", "FAILED"), None: ("-", "no verdict")}


def doctor(
    *,
    file: Annotated[Path | None, typer.Argument(help="Write the full report to this JSON file.")] = None,
    device: Device = "auto",
    ranks: Annotated[int, typer.Option(help="Number of ranks to test; 1 skips the check.", min=1, max=8)] = 2,
    loss: Annotated[list[str] | None, typer.Option(help="Loss to check; may be given often. [all]")] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the test batches.", min=0)] = 0,
) -> Outcome:
    """Check losses, distributed ranks, memory and speed on a device."""
    from similis.doctor.report import GROUPS, run_checks, write_report
    from similis.training.files import replace_file

    found = []
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)  # before minutes of work
    for group in run_checks(device, ranks, loss or (), seed, GROUPS):
        found.append(group)
        mark = MARKS[group.right][not console().is_terminal]
        print_lines(f"{mark:10}  {group.name:8}  {group.sentence}  [{group.seconds:.0f} s]")
    report = write_report(device, found)
    print_lines("", report["sentence"])
    if file is not None:
        text = json.dumps(plain_values(report), indent=1, ensure_ascii=False) + "\n"
        replace_file(file, lambda beside: beside.write_text(text, encoding="utf-8"))
        print_lines(f"the full report is in {file}; paste the sentence above into an issue and attach the file")
    return Outcome(report, 0 if report["right"] else 1)
