"""``similis compare DATA --loss mine --against proxy_anchor``: is this loss better? No plan file is needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from similis.cli import options
from similis.cli.json_output import Result
from similis.cli.screen import print_lines

if TYPE_CHECKING:
    from similis.study.looks import Looks
    from similis.study.plan.schema import Plan
    from similis.study.report.judged_table import JudgedTable

CONTESTANT = "NAME, or FILE.py:NAME, with options as NAME:option=value,option=value."


def compare(
    *,
    source: options.RunSource,
    loss: Annotated[str, typer.Option(help=CONTESTANT, autocompletion=options.complete_loss)],
    against: Annotated[str, typer.Option(help="The baseline, as --loss.", autocompletion=options.complete_loss)],
    hours: Annotated[float | None, typer.Option(help="Hours to spend. [up to 15 repetitions]", min=0)] = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="Compare both losses with the options given; no option is searched.")
    ] = False,
    trials: Annotated[int, typer.Option(help="Trials for each option that is searched.", min=0)] = 2,
    sampler: Annotated[str, typer.Option(help="Batches: own (each loss's), balanced or random.")] = "own",
    margin: Annotated[float, typer.Option(help="Points of R@1 within which two losses are equivalent.")] = 1.0,
    epochs: options.Epochs = None,
    size: Annotated[int | None, typer.Option(help="Pixels of a side. [the network's own]")] = None,
    dim: options.Dim = None,
    backbone: options.Backbone = None,
    weights: options.StartWeights = None,
    batch: options.BatchSize = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate at which the search begins. [{training.lr}]")] = None,
    set_: options.Settings = None,
    allow_counts: options.AllowCounts = False,
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 0,
    folder: Annotated[Path, typer.Option(help="Folder of all comparisons.")] = Path("comparisons"),
    workers: Annotated[int, typer.Option(help="Runs in parallel.", min=1)] = 1,
    root: options.Root = None,
    device: options.Device = "auto",
) -> Result:
    """Test whether a loss is better than a baseline; repetitions are added until a verdict or until time is up."""
    from similis.cli.asked_spec import asked_keys, open_asked
    from similis.cli.compare_plan import comparison_name, comparison_plan, layout_loss
    from similis.cli.tournament import print_record, show_files
    from similis.engine.executor import Executor
    from similis.run.fitted_settings import fit_comparison
    from similis.run.machine import Machine
    from similis.study.report.page import write_report
    from similis.study.report.summary import describe_verdicts
    from similis.study.tournament import run_until_decided
    from similis.study.tournament_folder import TournamentFolder

    named = {
        "training.epochs": epochs, "model.image_size": size, "model.dim": dim, "model.backbone": backbone,
        "model.weights": weights, "training.batch_size": batch, "training.lr": lr,
        "data.allow_counts": allow_counts or None, "objective.loss": layout_loss((loss, against)),
        "training.sampler": sampler if sampler in ("balanced", "random") else None,
    }  # fmt: skip
    machine = Machine(root=folder / "runs", device=device, data_root=root)
    spec = open_asked(source, asked_keys(named, set_ or ()), machine, fit_comparison).spec
    search = {"trials": 0 if fixed else trials, "seed": seed}
    plan = comparison_plan(spec, (loss, against), fixed=fixed, sampler=sampler, margin=margin, search=search)
    print_cost(plan, hours, workers, root)
    place = folder / comparison_name(plan)
    judged = run_until_decided(
        plan, place, hours=hours, data_root=root, device=device, runs=machine.root,
        executor=Executor(workers, on_finished=print_record), on_look=print_look,
    )  # fmt: skip
    said = describe_verdicts(judged)
    print_lines(*said)
    return {
        "sentence": said[0], "decided": judged.decided, "repetitions": len(judged.whole.repetitions),
        "verdicts": judged.asked, "folder": place,
        "files": show_files(write_report(TournamentFolder(place))),
    }  # fmt: skip


def print_cost(plan: Plan, hours: float | None, workers: int, root: str | None) -> None:
    """One line before anything runs: what the fewest repetitions with a verdict take, beside the time given."""
    from similis.run.cost import format_duration
    from similis.study.plan.cost import plan_cost
    from similis.study.statistics.variance_components import LEAST_REPETITIONS

    cost = plan_cost(plan.model_copy(update={"repetitions": LEAST_REPETITIONS}), data_root=root)
    given = "" if hours is None else f"; --hours gives {format_duration(3600 * hours)}"
    takes = f"take about {format_duration(cost.seconds / workers)} on idle cores{given}"
    print_lines(f"cost  {LEAST_REPETITIONS} repetitions, the fewest with a verdict, {takes}")


def print_look(judged: JudgedTable, looks: Looks) -> None:
    """One line for an interim analysis."""
    last = judged.asked[-1] if judged.asked else None
    said = f"{last.verdict} ({last.difference:+.2f} points)" if last else "no verdict"
    print_lines(f"interim analysis after {looks.looks[-1]} of at most {looks.most} repetitions: {said}")
