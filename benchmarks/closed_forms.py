"""Closed forms on ready features: ``python -m benchmarks.closed_forms [--only ROW] [--json FILE]``.

R@1 and MAP@R on unseen classes of features as they are, and behind principal components, discriminant analysis and
within-class whitening at four sizes. One row is a table of ``benchmarks.native_features``. As in the study of heads, a
fifth of the training classes validates, here by choosing the shrinkage, and the rest fits the map; five draws of them.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch

from benchmarks.native_features import FOLDER
from benchmarks.rounds import arguments, measure_rows
from similis.run.frozen_backbone import fit_split
from similis.run.machine import Machine
from similis.run.parts import Source, open_source
from similis.run.spec import parse_spec
from similis.run.untouched import evaluate_embedded
from similis.sphere import unit
from similis.training.closed_form import FITS
from similis.values import Embedded

SIZES = (64, 128, 512, 1024)
DRAWS = 5
ROWS = ("cub200_2011 lite0", "cars196 lite0")


def measure(row: str) -> dict[str, Any]:
    """Closed form -> size -> R@1, MAP@R and the chosen shrinkage of each draw."""
    data = {"source": str(FOLDER / f"{row.replace(' ', '-')}.parquet"), "validation_share": 0.2}
    machine = Machine(device="cpu")
    found: dict[str, Any] = {name: {str(size): [] for size in SIZES} for name in FITS}
    for draw in range(DRAWS):
        source = open_source(parse_spec({"data": data | {"validation_seed": draw}}), machine)
        features, labels, split = source.manifest.vectors, source.manifest.labels, source.split
        found["raw"] = {str(features.shape[1]): [scores(features, source, machine)]}
        for name, size in product(FITS, SIZES):
            fitted = fit_split(name, features, labels, split, size, rows=split.train)
            figures = scores(fitted.map(features), source, machine)
            found[name][str(size)].append(figures | {"shrinkage": fitted.shrinkage})
    return found


def mean(cells: list[dict[str, float]], key: str) -> float:
    """Over draws."""
    return sum(cell[key] for cell in cells) / len(cells)


def scores(vectors: torch.Tensor, source: Source, machine: Machine) -> dict[str, float]:
    """R@1 and MAP@R of the test classes."""
    rows = source.split.test
    means = evaluate_embedded(Embedded(unit(vectors[rows]), source.manifest.labels[rows], rows), machine, source).means
    return {name: means[name] for name in ("recall@1", "map@r")}


def page_rows(found: dict[str, Any]) -> list[str]:
    """Lines of the table of heads: R@1 of each size, in per cent."""
    rows = []
    for name in FITS:
        cells = [f"{100 * mean(found[name][str(size)], 'recall@1'):.1f}" for size in SIZES]
        rows.append(f"| closed form: {name} | {' | '.join(cells)} |  |")
    return rows


def main() -> None:
    """Measure and print."""
    asked = arguments(__doc__ or "", list(ROWS))
    for row, found in measure_rows("closed_forms", asked, ROWS, measure).items():
        print(row, *page_rows(found), sep="\n")


if __name__ == "__main__":
    main()
