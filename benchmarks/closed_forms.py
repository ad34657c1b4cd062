"""Closed forms on ready features: ``python -m benchmarks.closed_forms [--only ROW] [--json FILE]``.

R@1 and MAP@R on unseen classes of features as they are, and behind principal components, discriminant analysis and
within-class whitening at four sizes. One row is a table of ``benchmarks.native_features``. A fifth of the training
classes chooses the shrinkage; all of them then fit the map. The test classes are opened once for each cell.
"""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.native_features import FOLDER
from benchmarks.rounds import arguments, print_table, write_json
from similis.run.frozen_backbone import fit_split
from similis.run.machine import Machine
from similis.run.parts import Source, open_source
from similis.run.spec import parse_spec
from similis.run.untouched import evaluate_embedded
from similis.sphere import unit
from similis.training.closed_form import FITS
from similis.values import Embedded

SIZES = (64, 128, 512, 1024)
ROWS = ("cub200_2011 lite0", "cars196 lite0")


def measure(row: str) -> dict[str, Any]:
    """Closed form -> size -> R@1, MAP@R and the chosen shrinkage."""
    data = {"source": str(FOLDER / f"{row.replace(' ', '-')}.parquet"), "validation_share": 0.2}
    machine = Machine(device="cpu")
    source = open_source(parse_spec({"data": data}), machine)
    features, labels = source.manifest.vectors, source.manifest.labels
    found: dict[str, Any] = {"raw": {str(features.shape[1]): scores(features, source, machine)}}
    for name in FITS:
        found[name] = {}
        for size in SIZES:
            fitted = fit_split(name, features, labels, source.split, size)
            figures = scores(fitted.map(features), source, machine)
            found[name][str(size)] = figures | {"shrinkage": fitted.shrinkage, "directions": len(fitted.map.bias)}
    return found


def scores(vectors: torch.Tensor, source: Source, machine: Machine) -> dict[str, float]:
    """R@1 and MAP@R of the test classes."""
    rows = source.split.test
    means = evaluate_embedded(Embedded(unit(vectors[rows]), source.manifest.labels[rows], rows), machine, source).means
    return {name: means[name] for name in ("recall@1", "map@r")}


def page_rows(found: dict[str, Any]) -> list[str]:
    """Lines of the table of heads: R@1 of each size, in per cent."""
    rows = []
    for name in FITS:
        cells = [f"{100 * found[name][str(size)]['recall@1']:.1f}" for size in SIZES]
        rows.append(f"| closed form: {name} | {' | '.join(cells)} |  |")
    return rows


def main() -> None:
    """Measure and print."""
    asked = arguments(__doc__ or "", list(ROWS))
    figures: dict[str, Any] = {}
    for row in [asked.only] if asked.only else ROWS:
        figures[row] = measure(row)
        write_json(asked.json, "python -m benchmarks.closed_forms", figures)
        lines = [
            [name, size, 100 * cell["recall@1"], 100 * cell["map@r"], cell.get("shrinkage")]
            for name, sizes in figures[row].items()
            for size, cell in sizes.items()
        ]
        print_table(row, ["closed form", "size", "R@1 %", "MAP@R %", "shrinkage"], lines)


if __name__ == "__main__":
    main()
