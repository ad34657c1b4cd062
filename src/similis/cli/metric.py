"""``similis metric TABLE --label COLUMN``: which columns make rows similar."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from similis.cli.json_output import Result
from similis.cli.screen import print_lines, show_table

if TYPE_CHECKING:
    from similis.sklearn.estimator import MetricLearner
    from similis.sklearn.report import Accuracy, Table


def metric(
    *,
    table: Annotated[str, typer.Argument(help="A .csv or .tsv file with a header line.")],
    label: Annotated[str, typer.Option(help="The column that names the class of each row.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the report.")] = Path("metric"),
    objective: Annotated[str, typer.Option(help="nca, lmnn, mcml, constraints, whitening, or a loss.")] = "nca",
    components: Annotated[int | None, typer.Option(help="Rank of the metric; all columns if left out.")] = None,
    kernel: Annotated[str, typer.Option(help="linear, rbf or poly.")] = "linear",
    seed: Annotated[int, typer.Option(help="Seed of folds and draws.")] = 0,
) -> Result:
    """Learn a metric from a table; report nearest-neighbour accuracy, the matrix and the columns' shares."""
    from similis.data.readers.tables import read_columns
    from similis.sklearn import MetricLearner
    from similis.sklearn.report import accuracies, parse_table

    rows = parse_table(read_columns(table), label)
    learner = MetricLearner(objective, n_components=components, kernel=kernel, random_state=seed)
    found = accuracies(rows, learner, seed)
    learner.fit(rows.values, list(rows.labels))
    shares: dict[str, float] = {}  # of the columns, the largest first; a kernel mixes them
    if kernel == "linear":
        shares = dict(sorted(zip(rows.columns, learner.importances_.tolist(), strict=True), key=lambda item: -item[1]))
    write_report(output, rows, learner, found, shares)
    names = {"before": "columns of unit variance", "after": f"learned ({objective})"}
    show_table(
        str(rows), ("metric", "3 nearest neighbours, %"), [(names[key], str(value)) for key, value in found.items()]
    )
    if shares:
        top = [(name, f"{100 * share:.1f}") for name, share in list(shares.items())[:10]]
        show_table("columns that matter most", ("column", "share, %"), top)
    if rows.left_out:
        print_lines(f"left out, not numbers: {', '.join(rows.left_out)}")
    print_lines(f"report: {output / 'report.md'}")
    counts = {"rows": len(rows.labels), "columns": len(rows.columns), "classes": len(set(rows.labels))}
    return {**counts, **found, "shares": shares, "left_out": rows.left_out, "report": output / "report.md"}


def write_report(
    folder: Path, rows: Table, learner: MetricLearner, found: dict[str, Accuracy], shares: dict[str, float]
) -> None:
    """The matrix as a table, and one page of text."""
    import csv

    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "# A metric for the table", "",
        f"{rows}; objective `{learner.objective}`, {learner.n_iter_} steps.", "",
        "| metric | 3 nearest neighbours, % (95% interval) |", "|---|---|",
        f"| columns of unit variance | {found['before']} |", f"| learned | {found['after']} |", "",
        "Accuracy is cross-validated: a row is never judged by a metric that has seen it.", "",
    ]  # fmt: skip
    if shares:
        with (folder / "matrix.csv").open("w", newline="") as file:
            csv.writer(file).writerows(
                [["", *rows.columns], *([n, *r] for n, r in zip(rows.columns, learner.metric_.tolist(), strict=True))]
            )
        lines += ["| column | share, % |", "|---|---|"]
        lines += [f"| {name} | {100 * share:.2f} |" for name, share in shares.items()]
        lines += ["", "A share is the mean squared distance of rows that differ in that column only. Columns that say",
                  "the same share their weight. `matrix.csv` holds the matrix on the raw columns."]  # fmt: skip
    if rows.left_out:
        lines += ["", f"Left out, because not all cells are numbers: {', '.join(rows.left_out)}."]
    (folder / "report.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
