"""``similis verify RUN DATA``: choose the threshold of "same or different" for the model of a finished run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from similis.cli.json_output import Result
from similis.cli.options import Device, KeepTrained, Loaders, Root
from similis.cli.screen import print_lines, show_table


def verify(
    *,
    run: Annotated[Path, typer.Argument(help="The folder of a finished run, or of runs with one finished.")],
    data: Annotated[str, typer.Argument(help="Data (its test classes), or a CSV of pairs: path,path,0 or 1.")],
    far: Annotated[float, typer.Option(help="False accept rate that the threshold keeps.")] = 1e-3,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where a figure goes.")] = None,
    keep_trained: KeepTrained = False,
    root: Root = None,
    workers: Loaders = 0,
    device: Device = "auto",
) -> Result:
    """Choose the similarity threshold that separates same from different, and store it with the run."""
    from similis.model.bundle_files import THRESHOLD
    from similis.model.finished import finished
    from similis.model.verification import verify_run
    from similis.run.machine import Machine

    result = finished(run)
    machine = Machine(device=device, workers=workers, data_root=root)
    threshold, found = verify_run(result, data, far, machine, keep_trained=keep_trained)
    measured = {f"TAR at FAR {rate:g}": (tar, found.threshold[rate].value) for rate, tar in found.tar.items()}
    measured["EER"] = (found.eer, found.eer_threshold)
    rows = [
        (name, f"{100 * each.value:.1f} %", f"{100 * each.low:.1f} to {100 * each.high:.1f} %", f"{at:.4f}")
        for name, (each, at) in measured.items()
    ]
    rows.append(("OPIS", f"{found.opis:.2e}", "", ""))
    counted = f"{len(found.classes)} classes, {found.genuine:,} genuine and {found.impostors:,} impostor pairs"
    show_table(f"{threshold.data}: {counted}", ("measure", "value", "95 % interval", "threshold"), rows)
    kept = result.folder / THRESHOLD
    print_lines(f"threshold  {threshold.value:.4f} for FAR {far:g}, kept in {kept}")
    if output is not None:
        from similis.figures.verification_plot import draw_verification
        from similis.model.pictures import write_picture

        write_picture(draw_verification(found, f"{threshold.data}: {counted}"), output)
        print_lines(f"figure     {output}")
    numbers = {name: getattr(found, name) for name in ("genuine", "impostors", "tar", "eer", "opis")}
    return {**asdict(threshold), **numbers, "kept": kept, "figure": output}
