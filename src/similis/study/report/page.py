"""Write the report of a tournament as Markdown beside its pictures, and as one HTML page with everything inside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from similis.study.plan.schema import Plan
from similis.study.report import pictures, tables
from similis.study.report.judged_table import JudgedTable, judge_table
from similis.study.report.record import report_record
from similis.study.report.search_tables import group_searches, search_table, settings_table
from similis.study.report.summary import describe_table, missing_tuning
from similis.study.report.verdict_tables import (
    failed_table,
    pair_table,
    variance_table,
    verdict_column,
    verdict_matrix,
)
from similis.study.statistics.fair_table import FairTable, fair_table
from similis.study.statistics.verdicts import PairVerdict
from similis.study.tournament_folder import TournamentFolder
from similis.values import UserError, import_extra


def write_report(
    folder: TournamentFolder,
    *,
    out: Path | None = None,
    times: bool = True,
    verdicts: Sequence[PairVerdict] | None = None,
) -> tuple[Path, Path, Path]:
    """Write ``report.md`` with ``figures/``, ``report.html``, and their numbers as ``report.json``, from the records.

    Args:
        folder: the tournament's.
        out: where to write; None for the tournament's folder.
        times: whether to show times and memory; without them the same records give the same bytes.
        verdicts: of the plan's question where several looks share one error rate; None: judged here, as one look.

    Returns:
        The three files.
    """
    plan, out = folder.plan(), out or folder.path
    records = folder.records.all("final")
    if not records:
        raise UserError(f"no final run is finished in {folder.path}; run the tournament first")
    folder.ledger.check(records)
    (out / "figures").mkdir(parents=True, exist_ok=True)
    found = fair_tables(plan, records)
    floors = folder.records.all("floor")
    judged = [judge_table(plan, table, floors, verdicts) for table in found]
    searches, entries = group_searches(folder.records.all("search")), folder.ledger.entries()
    content = {
        "plan": plan,
        "sections": [section_content(plan, each, out, times=times) for each in judged],
        "rank_sums": tables.rank_sum_table([each.trained for each in judged]),
        "by_condition": pictures.condition_pictures(plan, found, out),
        "search": search_table(searches) if plan.search.trials else None,
        "settings": settings_table(plan, searches),
        "tuning": pictures.tuning_picture(searches, pictures.highlight(judged[0]), found[0].selected_on_test, out)
        if plan.search.trials
        else None,
        "held": tables.held_table(found),
        "held_by_table": tables.held_by_table(found),
        "declared": tables.declared_table(found),
        "openings": tables.opening_table(entries),
        "entries": [f"`{entry['model']}`: {entry['why']}" for entry in entries],
        "commands": [
            f"`similis tournament run plan.yaml --only {each.title} --folder again`" for each in plan.contestants
        ],
    }
    files = out / "report.md", out / "report.html", out / "report.json"
    for file, style in zip(files[:2], ("markdown", "html"), strict=True):
        file.write_text(render(style, content), encoding="utf-8")
    files[2].write_text(report_record(judged), encoding="utf-8")
    return files


def fair_tables(plan: Plan, records: Sequence[dict[str, Any]]) -> list[FairTable]:
    """One table for each arena and length that has results, in the order of the plan."""
    rows = {
        (arena.name, length): [r for r in records if (r["arena"], r["length"]) == (arena.name, length)]
        for arena in plan.arenas
        for length in plan.lengths
    }
    return [fair_table(found) for found in rows.values() if found]


def section_content(plan: Plan, judged: JudgedTable, out: Path, *, times: bool) -> dict[str, Any]:
    """What the template shows of one table."""
    table, asked = judged.whole, judged.asked
    return {
        "table": table,
        "judged": judged,
        "summary": describe_table(judged),
        "caption": missing_tuning(plan, table),
        "results": tables.result_table(judged, *verdict_column(judged)),
        "differences": pictures.difference_pictures(judged, out),
        "decided": [v.sentence for v in asked if v.verdict != "undecided"],
        "undecided": [v.sentence for v in asked if v.verdict == "undecided"],
        "matrix": verdict_matrix(judged) if judged.against is None else None,
        "flips": [flip.sentence for flip in judged.flips],
        "pairs": pair_table(asked),
        "failed": failed_table(judged),
        "variance": variance_table(table) if table.scores.can_be_judged else None,
        "learning": pictures.learning_picture(judged, out),
        "curves": tables.curve_table(table),
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
