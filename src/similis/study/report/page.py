"""Write the report of a tournament as Markdown beside its pictures, and as one HTML page with everything inside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from similis.study.plan.schema import Plan
from similis.study.report import pictures, tables
from similis.study.statistics.fair_table import FairTable, fair_table
from similis.study.statistics.significance import TARGETS
from similis.study.statistics.verdicts import pair_verdicts
from similis.study.tournament_folder import TournamentFolder
from similis.values import UserError, import_extra


def write_report(
    folder: TournamentFolder, *, out: Path | None = None, times: bool = True, photos: bool = True
) -> tuple[Path, Path]:
    """Write ``report.md`` with ``figures/``, and ``report.html``, from the records of a tournament.

    Args:
        folder: the tournament's.
        out: where to write; None for the tournament's folder.
        times: whether to show times and memory; without them the same records give the same bytes.
        photos: whether to read example photos from the data set.

    Returns:
        The two files.
    """
    plan, out = folder.plan(), out or folder.path
    records = folder.records.all("final")
    if not records:
        raise UserError(f"no final run is finished in {folder.path}; run the tournament first")
    folder.ledger.check(records)
    (out / "figures").mkdir(parents=True, exist_ok=True)
    found = fair_tables(plan, records)
    searches, entries = folder.records.all("search"), folder.ledger.entries()
    over, rank_sums = tables.rank_sum_table(found)
    content = {
        "plan": plan,
        "sections": [section_content(table, searches, folder if photos else None, out, times=times) for table in found],
        "ranked_over": over,
        "rank_sums": rank_sums,
        "by_condition": pictures.condition_pictures(plan, found, out),
        "search": tables.search_table(searches) if plan.search.trials else None,
        "held": tables.held_table(found),
        "held_by_table": tables.held_by_table(found),
        "own_samplers": tables.samplers_differ(found),
        "declared": tables.declared_table(found),
        "openings": tables.opening_table(entries),
        "entries": [f"`{entry['model']}`: {entry['why']}" for entry in entries],
        "commands": [
            f"`similis tournament run plan.yaml --only {each.title} --folder again`" for each in plan.contestants
        ],
    }
    files = out / "report.md", out / "report.html"
    for file, style in zip(files, ("markdown", "html"), strict=True):
        file.write_text(render(style, content), encoding="utf-8")
    return files


def fair_tables(plan: Plan, records: Sequence[dict[str, Any]]) -> list[FairTable]:
    """One table for each arena and length that has results, in the order of the plan."""
    rows = {
        (arena.name, length): [r for r in records if (r["arena"], r["length"]) == (arena.name, length)]
        for arena in plan.arenas
        for length in plan.lengths
    }
    return [fair_table(found) for found in rows.values() if found]


def section_content(
    table: FairTable, searches: Sequence[dict[str, Any]], folder: TournamentFolder | None, out: Path, *, times: bool
) -> dict[str, Any]:
    """What the template shows of one table; example photos come from ``folder``."""
    verdicts = pair_verdicts(table.scores) if table.scores.can_be_judged else []
    better = [v for v in verdicts if v.verdict == "better"]
    best = table.order()[0]
    return {
        "table": table,
        "best": table.names[best],
        "highest": tables.format_percent(table.scores.means[best]),
        "results": tables.result_table(table, {record["contestant"]: record for record in searches}),
        "recall": pictures.recall_picture(table, out),
        "counts": {
            target: (sum(v.target == target for v in better), sum(v.target == target for v in verdicts))
            for target in TARGETS
        },
        "verdicts": verdicts,
        "better": [v.sentence for v in better],
        "undecided": [v.sentence for v in verdicts if v.verdict != "better"],
        "matrix": tables.verdict_matrix(table, verdicts),
        "pairs": tables.pair_table(verdicts),
        "learning": pictures.learning_picture(table, out),
        "curves": tables.curve_table(table),
        "wins": pictures.wins_picture(table, folder, out) if folder is not None and len(table.names) > 1 else None,
        "cost": pictures.cost_picture(table, out) if times else None,
        "times": tables.time_table(table) if times else None,
    }


def render(style: str, content: Mapping[str, Any]) -> str:
    """The report in a style, ``markdown`` or ``html``; what comes from outside is escaped in HTML."""
    jinja2 = import_extra("jinja2")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("similis.study.report"),
        autoescape=style == "html",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    marked = import_extra("markupsafe")
    environment.filters["code"] = lambda text: marked.Markup(
        re.sub(r"`([^`]+)`", r"<code>\1</code>", str(marked.escape(text)))
    )
    environment.tests["numeric"] = lambda cell: re.match(r"[-+−±]? ?\d[\d,.]*$", cell)
    text = environment.get_template("report.j2").render(content, style=f"{style}.j2")
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
