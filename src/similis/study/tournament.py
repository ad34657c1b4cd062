"""Run a tournament: search every contestant, then the final runs; a second call continues where the first stopped."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from similis.engine.executor import Executor
from similis.registry import losses
from similis.run.address import NUMERICS, source_fingerprints
from similis.run.cost import format_duration
from similis.run.run import run
from similis.study.floors import floor_jobs, measure_floor
from similis.study.looks import Looks
from similis.study.plan import jobs
from similis.study.plan.cost import check_runs
from similis.study.plan.equal_terms import flatten_spec, held_terms
from similis.study.plan.plan_file import parse_plan, plan_text, read_plan
from similis.study.plan.schema import Plan
from similis.study.records import Meter, Record, check_sources, result_record
from similis.study.report.judged_table import JudgedTable, fair_tables, judge_folder
from similis.study.search.contestant_search import search_contestant
from similis.study.statistics.fair_table import RULE
from similis.study.statistics.variance_components import LEAST_REPETITIONS
from similis.study.tournament_folder import TournamentFolder
from similis.training.file_lock import hold_lock
from similis.training.files import replace_file
from similis.values import DivergedError, UserError

logger = logging.getLogger(__name__)


def run_tournament(
    plan: Plan | Mapping[str, Any] | str | Path,
    path: str | Path,
    *,
    workers: int | None = None,
    only: str | None = None,
    data_root: str | None = None,
    device: str = "auto",
    runs: Path | None = None,
    executor: Executor | None = None,
    grows: bool = False,
) -> TournamentFolder:
    """Run everything that a plan asks for and that is not done yet.

    Searches of different contestants run in parallel, the trials of one in sequence; then the final runs. Killed at
    any moment and called again, a tournament ends with the same records.

    Args:
        plan: what to run, as a plan, its plain values or its YAML file.
        path: the tournament's folder; a plan begun there may only gain contestants.
        workers: processes of this machine; 1 if neither they nor executor are given.
        only: the name of a contestant that alone is run; contestants do not depend on each other.
        data_root: folder of the known data sets; None for SIMILIS_DATA.
        device: that computes each run; of one kind for all.
        runs: folder of the runs, which several tournaments may share; None for one of its own.
        executor: where to run, instead of workers.
        grows: whether the plan may have more repetitions than before; a table of it has no verdict of its own.
    """
    executor, path = executor or Executor(workers), Path(path)
    if not isinstance(plan, Plan):
        plan = parse_plan(plan) if isinstance(plan, Mapping) else read_plan(Path(plan))
    if executor.on_ray:  # as places are called on every node
        path, data_root = path.resolve(), data_root or os.environ.get("SIMILIS_DATA")
    if only is not None:
        plan.contestant(only)
    folder = TournamentFolder(path, data_root, device, runs)
    busy = f"another process runs the tournament in {path}; wait for it or choose another folder"
    with hold_lock(path / "driver.lock", busy=busy):
        if not (path / "plan.yaml").exists():
            check_runs(plan, folder.machine)
        write_plan(plan, folder, grows=grows)
        warn_of_other_numerics(folder)
        titles = [each.title for each in jobs.participants(plan) if only in (None, each.title)]
        executor.map(partial(run_search, folder), waiting_searches(plan, folder, titles))
        finals = [job for job in jobs.final_jobs(plan) if job.contestant in titles]
        waiting = [job for job in finals if folder.records.read(job.name) is None]
        floors = [job for job in floor_jobs(plan) if folder.records.read(job.name) is None]
        executor.map(partial(measure_floor, folder), floors)
        lost = [record for record in executor.map(partial(run_final, folder), waiting) if "lost" in record]
    if lost:
        raise DivergedError(
            f"{len(lost)} of {len(waiting)} final runs diverged, the others are done: "
            + "; ".join(f"{record['name']}: {record['lost']}" for record in lost)
            + ". `similis tournament report` shows what is there; give these losses other options or a lower rate"
        )
    return folder


def waiting_searches(plan: Plan, folder: TournamentFolder, titles: Sequence[str]) -> list[tuple[str, int]]:
    """Contestant and repetition of the searches to run; raises if the source of one that is done was edited."""
    waiting = []
    sources = {title: source_fingerprints(jobs.trial_spec(plan, plan.contestant(title), {}, 0)) for title in titles}
    for repetition in range(1 if plan.search.shared else plan.repetitions):
        for title in titles:
            known = folder.records.read(f"search-{jobs.search_name(plan, title, repetition)}")
            if known is None:
                waiting.append((title, repetition))
            else:
                check_sources(known, sources[title], folder.path)
    return waiting


def warn_of_other_numerics(folder: TournamentFolder) -> None:
    """Say before anything is computed that new results will not share a table with those that are there."""
    others = {record["facts"].get("numerics") for record in folder.records.all("final")} - {NUMERICS}
    if others:
        logger.warning(
            "%s holds results of numerics version %s, and this version of Similis computes version %d: they are not "
            "placed in one table; run the plan in a new folder to compare all contestants",
            folder.path, ", ".join(map(str, sorted(others, key=str))), NUMERICS,
        )  # fmt: skip


def write_plan(plan: Plan, folder: TournamentFolder, *, grows: bool = False) -> None:
    """Write the plan; an earlier one may only gain contestants or arenas, and repetitions where ``grows``."""
    file = folder.path / "plan.yaml"
    if file.exists():
        grown = folder.plan().model_dump(mode="json")
        new = plan.model_dump(mode="json")
        for key, value in grown.items():
            lost = [each for each in value if each not in new[key]] if isinstance(value, list) else value != new[key]
            if lost and not (grows and key == "repetitions" and new[key] > value):
                before, after = (dict(flatten_spec({key: each[key]})) for each in (grown, new))
                differ = [name for name in {**before, **after} if before.get(name, ...) != after.get(name, ...)]
                raise UserError(
                    f"{[*differ, key][0]} of the plan in {folder.path} differs from the one given; "
                    "a plan that was begun may gain contestants and arenas and keeps everything else, its repetitions "
                    "too, because a tournament is judged once: choose another folder"
                )
    replace_file(file, lambda beside: beside.write_text(plan_text(plan), encoding="utf-8"))


def run_search(folder: TournamentFolder, whose: tuple[str, int]) -> Record:
    """Search one contestant in one repetition; other workers wait or find its record."""
    plan, (title, repetition) = folder.begin(), whose
    with hold_lock(folder.path / "locks" / f"search-{jobs.search_name(plan, title, repetition)}"):
        return search_contestant(plan, plan.contestant(title), folder, repetition)


def run_final(folder: TournamentFolder, job: jobs.FinalJob) -> Record:
    """Run one final job; the ledger has its opening before it can happen. A diverged run leaves no record."""
    plan = folder.begin()
    with hold_lock(folder.path / "locks" / job.name):
        chosen = folder.records.read(f"search-{jobs.search_name(plan, job.contestant, job.repetition)}")
        assert chosen is not None, "searches end before final runs begin"
        spec = jobs.final_spec(plan, job, chosen["settings"])
        sources, known = source_fingerprints(spec), folder.records.read(job.name)
        if known is not None:
            return check_sources(known, sources, folder.path)
        how = "selected on test after every epoch" if spec.data.protocol == "default" else "selected, finished model"
        folder.ledger.note(job.name, why=how, contestant=job.contestant)
        meter = Meter()
        try:
            result = run(spec, folder.machine, meter)
        except DivergedError as error:
            return {"name": job.name, "lost": str(error)}
        around = {"search": plan.search.model_dump(mode="json", exclude={"storage"}), "threads": plan.threads}
        record = {
            **asdict(job),
            "rule": RULE,
            "loss": losses.get(spec.objective.loss).name,
            "sources": sources,
            "settings": chosen["settings"],
            **result_record(result, spec),
            "held": held_terms(jobs.compared_values(plan, job, spec), result.facts, {"tuning": around}),
            "cost": meter.cost() | dict(result.cost),
        }
        return folder.records.write(job.name, record)


def run_until_decided(
    plan: Plan,
    path: Path,
    *,
    hours: float | None = None,
    on_look: Callable[[JudgedTable, Looks], None] | None = None,
    **how: Any,
) -> JudgedTable:
    """Run a tournament of two, repetition by repetition, and stop at the first interim analysis that decides.

    The time of the first two repetitions alone settles how many there are at most; the interim analyses up to that
    number share one error rate. When the time is up, a final analysis uses the rest of it and closes the tournament. A
    second call continues, or returns the stored verdict.

    Args:
        plan: of two contestants, the baseline named by ``against``.
        path: the tournament's folder.
        hours: the time budget; None for as many as the last planned interim analysis needs.
        on_look: called after every interim analysis.
        how: other options of :func:`run_tournament`.
    """
    folder, begun = TournamentFolder(path), time.monotonic()
    looks = folder.looks
    done = max(len(looks.seconds), folder.plan().repetitions if (path / "plan.yaml").exists() else 1)
    while True:
        before = time.monotonic()
        run_tournament(plan.model_copy(update={"repetitions": done}), path, grows=True, **how)
        looks.note(done, time.monotonic() - before)
        check_reachable(looks, hours)
        late = hours is not None and time.monotonic() - begun + looks.pace > 3600 * hours
        if looks.most is None and (late or done > 1):
            looks.settle(hours)
        looked = looks.look(done, late=late)
        over = late or looks.closed or (looks.most is not None and done >= looks.most)
        if done in looks.looks or over:  # nothing new can be said between two interim analyses
            (judged,) = judge_folder(folder)
            if looked and on_look is not None:
                on_look(judged, looks)
            if judged.decided or over:
                return judged
        done += 1


def check_reachable(looks: Looks, hours: float | None) -> None:
    """Raise after the first repetition if the time given does not suffice for the fewest that have a verdict."""
    needed = LEAST_REPETITIONS * looks.pace
    if len(looks.seconds) == 1 and hours is not None and needed > 3600 * hours:
        raise UserError(
            f"one repetition took {format_duration(looks.pace)}, so {LEAST_REPETITIONS}, the fewest with a verdict, "
            f"take {format_duration(needed)}, and the budget is {format_duration(3600 * hours)}; give --hours "
            f"{math.ceil(needed / 360) / 10:g}, or make a repetition cheaper with --fixed, --trials or --epochs"
        )


def add_contestants(path: Path, added: Sequence[str]) -> Plan:
    """The plan of a tournament that has begun, with more contestants, which the next run of it runs.

    Args:
        path: the tournament's folder.
        added: losses, and folders of other tournaments, whose contestants come with their results.
    """
    folder = TournamentFolder(path)
    if folder.looks.looks:
        raise UserError(f"{path} is a comparison, whose interim analyses share one error rate; plan all contestants")
    others = [TournamentFolder(Path(word)) for word in added if Path(word).is_dir()]
    values = folder.plan().model_dump(mode="json")
    titles = {each.title for each in folder.plan().contestants}
    coming = [each for other in others for each in other.plan().contestants if each.title not in titles]
    values["contestants"] += [each.model_dump(mode="json") for each in coming]
    values["contestants"] += [word for word in added if not Path(word).is_dir()]
    plan = parse_plan(values)
    for other in others:
        take_results(plan, folder, other)
    return plan


def take_results(plan: Plan, folder: TournamentFolder, other: TournamentFolder) -> None:
    """Take in the finished results of another tournament; raises for the first unequal field."""
    known = {each.title for each in folder.plan().contestants}
    own = [record for record in folder.records.all("final") if record["contestant"] in known]
    new = [record for record in other.records.all("final") if record["contestant"] not in known]
    tables = {(record["arena"], record["length"]) for record in own}
    for record in new:
        arena, length = record["arena"], record["length"]
        if (arena, length) not in tables:
            where = f"{folder.path} has no table {arena!r}, {length!r}"
            raise UserError(f"{where} for {record['name']}; run both under one plan")
    fair_tables(plan, [*own, *new])
    entries = {entry["model"]: entry for entry in other.ledger.entries()}
    for record in [*other.records.all("trial"), *other.records.all("search"), *new]:
        if record["contestant"] not in known:
            if record["name"] in entries:  # an opening moves with its result
                folder.ledger.note(**entries[record["name"]])
            folder.records.write(record["name"], record)
