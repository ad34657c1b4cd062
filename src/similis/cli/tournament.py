"""``similis tournament plan | run | report``: a fair comparison from a plan file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from similis.cli.json_output import Result
from similis.cli.options import Address, Cpus, Device, Gpus, OnRay, Root
from similis.cli.screen import print_lines, show_table
from similis.values import UserError

if TYPE_CHECKING:
    from similis.study.plan.schema import Plan


def plan(
    *,
    file: Annotated[Path, typer.Argument(help="A plan in YAML.")],
    workers: Annotated[int, typer.Option(help="Processes in parallel.", min=1)] = 1,
    rate: Annotated[float | None, typer.Option(help="Count card hours at so many images a second.", min=0.1)] = None,
    root: Root = None,
) -> Result:
    """Check a plan and show what it will cost; nothing is run."""
    from similis.study.plan.cost import describe_cost, plan_cost
    from similis.study.plan.plan_file import read_plan
    from similis.study.plan.search_space import search_space
    from similis.training.closed_form import FITS

    read = read_plan(file)
    contestants = [
        {"name": each.title, "loss": "closed form", "start": "-", "searched": "nothing to search"}
        if each.head in FITS
        else {"name": each.title, "loss": each.loss, "start": each.start or "defaults",
         "searched": ", ".join(search_space(each, read.search)) or "nothing to search"}
        for each in read.contestants
    ]  # fmt: skip
    rows = [list(each.values()) for each in contestants]
    show_table(f"{read.name}: {len(rows)} contestants", ("name", "loss", "begins with", "searched"), rows)
    cost, power = plan_cost(read, data_root=root, rate=rate), describe_power(read)
    print_lines(describe_cost(cost, workers))
    if len(cost.by_arena) > 1:
        hours = [(name, f"{seconds / 3600:,.1f}") for name, seconds in cost.by_arena.items()]
        show_table("hours of one process", ("arena", "at most"), hours)
    show_table("power, for these test classes", POWER_HEADS, power)
    if read.terms.data.protocol == "default":
        print_lines("protocol default: every result will be labelled 'selected on test'")
    seconds, needed = cost.seconds / workers, [dict(zip(POWER_HEADS, row, strict=True)) for row in power]
    return {"name": read.name, "contestants": contestants, "cost": cost._asdict(), "seconds": seconds, "power": needed}


POWER_HEADS = ("R@1 of a repetition varies by", "repetitions for 1 point", "for 2 points", "for 5 points")


def describe_power(plan: Plan) -> list[tuple[str, ...]]:
    """Repetitions that find a difference with 80 % power, by how much tuning and seeds vary."""
    from similis.study.statistics.power import MOST_REPETITIONS, planned_repetitions

    losses = len(plan.contestants)
    pairs = losses - 1 if plan.against else losses * (losses - 1) // 2
    rows = []
    for deviation in (0.5, 1.0, 2.0, 4.0):
        needed = [planned_repetitions(points, deviation, pairs=max(pairs, 1)) for points in (1, 2, 5)]
        cells = (f"more than {MOST_REPETITIONS}" if each is None else str(each) for each in needed)
        rows.append((f"{deviation:g} points", *cells))
    return rows


def run(
    *,
    file: Annotated[Path, typer.Argument(help="A plan in YAML, or the folder of a tournament that has begun.")],
    add: Annotated[list[str] | None, typer.Option(help="Add a loss, or the results of a tournament's folder.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where to keep it. [FILE, or tournaments/NAME]")] = None,
    workers: Annotated[int | None, typer.Option(help="Runs in parallel. [1; on Ray as many as fit]", min=1)] = None,
    only: Annotated[str | None, typer.Option(help="Run this contestant only.")] = None,
    root: Root = None,
    device: Device = "auto",
    on_ray: OnRay = False,
    address: Address = None,
    cpus: Cpus = 1.0,
    gpus: Gpus = 0.0,
) -> Result:
    """Run a plan or continue it, optionally with more contestants, and write its report."""
    from similis.engine.executor import Executor
    from similis.engine.ray import Share
    from similis.study.plan.plan_file import read_plan
    from similis.study.report.page import write_report
    from similis.study.tournament import add_contestants, run_tournament
    from similis.study.tournament_folder import TournamentFolder

    if address is not None and not on_ray:
        raise UserError(f"--address {address} is that of a Ray cluster; add --ray to work there")
    read = TournamentFolder(file).plan() if file.is_dir() else read_plan(file)
    place = folder or (file if file.is_dir() else Path("tournaments") / read.name)
    executor = Executor(workers, on_ray, address, Share(cpus, gpus), on_finished=print_record)
    read = add_contestants(place, add) if add else read
    done = run_tournament(read, place, only=only, data_root=root, device=device, executor=executor)
    return {"folder": place, "files": show_files(write_report(done))}


def print_record(record: dict[str, Any]) -> None:
    """One line for a finished search or final run."""
    value = record.get("test", {}).get("recall@1", record.get("value"))
    number = "" if value is None else f"  {'test' if 'test' in record else 'validation'} R@1 {100 * value:.2f} %"
    end = f"lost  {record['name']}  {record['lost']}" if "lost" in record else f"done  {record['name']}{number}"
    print_lines(end)


def report(
    *,
    folder: Annotated[Path, typer.Argument(help="The folder of a tournament.")],
    out: Annotated[Path | None, typer.Option(help="Another folder to write to.")] = None,
    times: Annotated[bool, typer.Option(help="Show times and memory.")] = True,
    pack: Annotated[bool, typer.Option("--pack", help="Put the records into one Parquet file.")] = False,
) -> Result:
    """Write the report of a tournament, or of a comparison, from its records."""
    from similis.study.report.page import write_report
    from similis.study.tournament_folder import TournamentFolder

    place = TournamentFolder(folder)
    files = [*write_report(place, out=out, times=times), *([place.records.pack()] if pack else [])]
    return {"folder": folder, "files": show_files(files)}


def show_files(paths: Sequence[Path]) -> Sequence[Path]:
    """One line for each file that was written; the files."""
    print_lines(*map(str, paths))
    return paths
