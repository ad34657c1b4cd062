"""``similis doctor``: check losses, ranks, memory and speed on this machine's device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from similis.cli.json_output import Outcome, plain_values
from similis.cli.options import Device
from similis.cli.screen import console, print_lines

MARKS = {True: ("✓", "right"), False: ("✗", "WRONG"), None: ("-", "no verdict")}


def doctor(
    *,
    file: Annotated[Path | None, typer.Argument(help="File to write every figure to, as JSON.")] = None,
    device: Device = "auto",
    ranks: Annotated[int, typer.Option(help="Processes to compare with one; 1 for no such check.", min=1, max=8)] = 2,
    loss: Annotated[list[str] | None, typer.Option(help="Check this loss only; may be given often.")] = None,
    seed: Annotated[int, typer.Option(help="Of the batches.", min=0)] = 0,
) -> Outcome | None:
    """Compare every loss on a device with float64 on the CPU, ranks with one process, memory with its plan."""
    from similis.doctor.report import GROUPS, run_checks, write_report

    found = []
    for group in run_checks(device, ranks, loss or (), seed, GROUPS):
        found.append(group)
        mark = MARKS[group.right][not console().is_terminal]
        print_lines(f"{mark:10}  {group.name:8}  {group.sentence}  [{group.seconds:.0f} s]")
    report = write_report(device, found)
    print_lines("", report["sentence"])
    code = 0 if report["right"] else 1
    if file is None:
        return Outcome(report, code)
    file.write_text(json.dumps(plain_values(report), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print_lines(f"every figure is in {file}; paste the sentence above into an issue and attach the file")
    raise typer.Exit(code)
