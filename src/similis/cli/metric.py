"""``similis metric TABLE --label COLUMN``: which columns make rows similar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from similis.cli.json_output import Result
from similis.cli.screen import print_lines, show_table


def metric(
    *,
    table: Annotated[str, typer.Argument(help="A .csv or .tsv file with a header line.")],
    label: Annotated[str, typer.Option(help="The column that names the class of each row.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of matrix.csv and shares.csv.")] = Path(
        "metric"
    ),
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
        write_tables(output, rows.columns, learner.metric_.tolist(), shares)
    names = {"before": "columns of unit variance", "after": f"learned ({objective})"}
    show_table(
        str(rows), ("metric", "3 nearest neighbours, %"), [(names[key], str(value)) for key, value in found.items()]
    )
    if shares:
        top = [(name, f"{100 * share:.1f}") for name, share in list(shares.items())[:10]]
        show_table("columns that matter most", ("column", "share, %"), top)
    if rows.left_out:
        print_lines(f"left out, not numbers: {', '.join(rows.left_out)}")
    if shares:
        print_lines(f"matrix and shares: {output}")
    counts = {"rows": len(rows.labels), "columns": len(rows.columns), "classes": len(set(rows.labels))}
    return {**counts, **found, "shares": shares, "left_out": rows.left_out, "folder": output if shares else None}


def write_tables(
    folder: Path, columns: Sequence[str], matrix: Sequence[Sequence[float]], shares: Mapping[str, float]
) -> None:
    """The matrix on the raw columns, and each column's share of the squared distance."""
    from similis.training.files import write_table

    write_table(folder / "matrix.csv", [["", *columns], *([n, *r] for n, r in zip(columns, matrix, strict=True))])
    write_table(folder / "shares.csv", [("column", "share"), *shares.items()])
