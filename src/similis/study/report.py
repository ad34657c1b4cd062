"""The report of a tournament: what was found, how sure it is, what was held equal, who looked at the test split."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from similis.study.page import Block, Fold, Heading, Items, Page, Text
from similis.study.plan import Plan
from similis.study.report_around import held_table, ledger_table, row_commands, search_table
from similis.study.report_pictures import (
    cost_picture,
    curves_picture,
    recall_picture,
    sizes_picture,
    wins_pictures,
)
from similis.study.report_tables import (
    curve_table,
    pair_table,
    rank_sum_table,
    result_table,
    time_table,
    verdict_matrix,
)
from similis.study.sentences import PairVerdict, pair_verdicts
from similis.study.table import FairTable, fair_table
from similis.study.tournament import Folder
from similis.values import UserError

ON_TEST = (
    "Selected on test: epochs and settings were chosen by looking at the test classes, as the literature does. "
    "No number on this page is an estimate for unseen classes."
)


def write_report(
    folder: Folder, *, out: Path | None = None, times: bool = True, photos: bool = True
) -> tuple[Path, Path]:
    """Write ``report.md`` and ``report.html`` from the records of a tournament.

    Args:
        folder: the tournament's.
        out: where to write; None for the tournament's folder.
        times: whether times and memory are told; without them the same records give the same bytes.
        photos: whether example photos are read from the data set.

    Returns:
        The two files.
    """
    plan = folder.plan()
    records = folder.records.all("final")
    if not records:
        raise UserError(f"no final run is finished in {folder.path}; run the tournament first")
    folder.ledger.check(records)
    tables = tables_of(plan, records)
    searches = folder.records.all("search")
    page = Page(f"Tournament: {plan.name}")
    if any(table.selected_on_test for table in tables):
        page.add(Text(ON_TEST, alarm=True))
    page.add(*summary(plan, tables))
    for table in tables:
        page.add(*section(table, folder if photos else None, searches, times=times))
    page.add(*across(plan, tables))
    page.add(Heading("Search"), *search_table(searches, plan))
    page.add(Heading("What was held equal"), *held_table(tables))
    page.add(Heading("The ledger: every opening of the test split"), *ledger_table(folder.ledger.entries()))
    page.add(Heading("Reproduce a row"), *row_commands(plan))
    return page.write(out or folder.path)


def tables_of(plan: Plan, records: list[dict[str, Any]]) -> list[FairTable]:
    """One table for each arena and length that has results, in the order of the plan."""
    found = []
    for arena in plan.arenas:
        for length in plan.lengths:
            rows = [r for r in records if (r["arena"], r["length"]) == (arena.name, length)]
            if rows:
                found.append(fair_table(rows))
    return found


def summary(plan: Plan, tables: list[FairTable]) -> list[Block]:
    """The first lines: how many of what, and the strongest sentence for each table."""
    protocol = plan.terms.data.protocol
    lines = [
        f"{len(plan.contestants)} contestants, {len(plan.seeds)} seeds, protocol `{protocol}`, "
        f"data `{plan.terms.data.source}`. Every verdict is given for two targets: on these test classes (other "
        "seeds) and on new classes (other seeds and other classes). The plain word better belongs to new classes."
    ]
    blocks: list[Block] = [Text(line) for line in lines]
    heads = []
    for table in tables:
        best = table.names[table.order()[0]]
        heads.append(f"{title_of(table)}: highest mean {best}, {100 * max(table.scores.means):.2f} %. {told(table)}")
    return [*blocks, Items(heads)]


def told(table: FairTable) -> str:
    """How many pairs are told apart."""
    if not judgeable(table):
        return "No verdicts: they need two seeds and two contestants."
    verdicts = pair_verdicts(table.scores)
    counts = [
        f"{sum(v.verdict == 'better' for v in verdicts if v.target == target)} of "
        f"{sum(v.target == target for v in verdicts)} pairs are told apart on {target}"
        for target in ("these classes", "new classes")
    ]
    return "; ".join(counts) + "."


def judgeable(table: FairTable) -> bool:
    """Whether verdicts are possible."""
    return len(table.names) > 1 and len(table.seeds) > 1 and len(table.labels) > 1


def title_of(table: FairTable) -> str:
    """Arena and length, with the warning where it belongs."""
    mark = " (selected on test)" if table.selected_on_test else ""
    return f"{table.arena}, {table.length}{mark}"


def section(table: FairTable, folder: Folder | None, searches: list[dict[str, Any]], *, times: bool) -> list[Block]:
    """Everything about one table."""
    title = title_of(table)
    settings: Mapping[str, Any] = {record["contestant"]: record for record in searches}
    blocks: list[Block] = [Heading(title), *result_table(table, settings), recall_picture(table, title)]
    if judgeable(table):
        verdicts = pair_verdicts(table.scores)
        blocks += [Heading("Verdicts", 3), *verdict_matrix(table, verdicts), *sentences(verdicts), pair_table(verdicts)]
    blocks += [Heading("Learning", 3), curves_picture(table, title), *curve_table(table)]
    if len(table.names) > 1 and folder is not None:
        blocks += wins_pictures(table, folder, title)
    if times:
        blocks += [Heading("Cost against quality", 3), cost_picture(table, title), time_table(table)]
    return blocks


def sentences(verdicts: list[PairVerdict]) -> list[Block]:
    """All sentences; those of pairs that are told apart stand open, the others in a fold."""
    blocks: list[Block] = []
    apart = [v.sentence for v in verdicts if v.verdict == "better"]
    rest = [v.sentence for v in verdicts if v.verdict != "better"]
    if apart:
        blocks.append(Items(apart) if len(apart) <= 12 else Fold(f"{len(apart)} sentences: told apart", [Items(apart)]))
    else:
        blocks.append(Text("No pair is told apart, for either target."))
    if rest:
        blocks.append(Fold(f"{len(rest)} sentences: not told apart, and what would tell", [Items(rest)]))
    return blocks


def across(plan: Plan, tables: list[FairTable]) -> list[Block]:
    """Comparisons over tables: by embedding size, by network, the thesis' rank sums."""
    blocks: list[Block] = [Heading("The thesis' tournament: sums of ranks"), *rank_sum_table(tables)]
    for picture in sizes_picture(plan, tables):
        blocks += [Heading(f"Recall by {picture.name.replace('_', ' ').removeprefix('recall by ')}"), picture]
    return blocks
