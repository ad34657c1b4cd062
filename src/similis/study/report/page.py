"""Write the report of a tournament as Markdown beside its pictures, and as one HTML page with everything inside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from similis.study.report import pictures, tables, verdict_tables
from similis.study.report.judged_table import JudgedTable, judge_folder
from similis.study.report.record import report_record
from similis.study.report.search_tables import group_searches, search_table, settings_table
from similis.study.report.summary import describe_table, missing_tuning
from similis.study.tournament_folder import TournamentFolder
from similis.values import import_extra


def write_report(folder: TournamentFolder, *, out: Path | None = None, times: bool = True) -> tuple[Path, Path, Path]:
    """Write ``report.md`` with ``figures/``, ``report.html``, and their numbers as ``report.json``, from the records.

    Args:
        folder: the tournament's.
        out: where to write; None for the tournament's folder.
        times: whether to show times and memory; without them the same records give the same bytes.

    Returns:
        The three files.
    """
    judged, plan, out = judge_folder(folder), folder.plan(), out or folder.path
    (out / "figures").mkdir(parents=True, exist_ok=True)
    found = [each.whole for each in judged]
    searches, entries = group_searches(folder.records.all("search")), folder.ledger.entries()
    content = {
        "plan": plan,
        "sections": [section_content(each, out, times=times) for each in judged],
        "rank_sums": tables.rank_sum_table(found),
        "by_condition": pictures.condition_pictures(plan, found, out),
        "search": search_table(searches) if plan.search.trials else None,
        "settings": settings_table(plan, searches),
        "tuning": pictures.tuning_picture(searches, pictures.highlight(judged[0]), found[0].selected_on_test, out),
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


def section_content(judged: JudgedTable, out: Path, *, times: bool) -> dict[str, Any]:
    """What the template shows of one table."""
    table, asked = judged.whole, judged.asked
    return {
        "table": table,
        "judged": judged,
        "summary": describe_table(judged),
        "caption": missing_tuning(judged.plan, table),
        "results": tables.result_table(judged, *verdict_tables.verdict_column(judged)),
        "differences": pictures.difference_picture(judged, out) if asked else None,
        "decided": [v.sentence for v in asked if v.verdict != "undecided"],
        "undecided": [v.sentence for v in asked if v.verdict == "undecided"],
        "matrix": verdict_tables.verdict_matrix(judged) if judged.plan.against is None else None,
        "pairs": verdict_tables.pair_table(asked),
        "cuts": None if asked else pictures.cuts_picture(table, out),
        "learning": pictures.learning_picture(judged, out),
        "curves": tables.curve_table(table),
        "folds": tables.fold_table(table),
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
