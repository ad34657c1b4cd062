"""Does training help? ``python -m benchmarks.fine_tuning [--only ROW] [--json FILE]``.

Recipes of fine-tuning against the untouched network of the same resolution, on the test classes of CARS196, Grocery and
CUB-200-2011. All recipes of a data set have the same training classes; a fifth of these validates and chooses the epoch
and, where a recipe interpolates, the share. Differences are paired by query, their intervals resample classes.
``SIMILIS_DATA`` names the folder of photos and weights. Runs are kept below ``runs/fine-tuning`` and go on where they
were stopped; the committed record is ``results/fine-tuning.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.lite_weights import weights
from benchmarks.rounds import arguments, known_rows, write_json
from similis.model.finished import trained_model
from similis.retrieval.intervals import mean_interval
from similis.run.evaluation import evaluate_rows, judge_of, validation_recall
from similis.run.fit import best_share
from similis.run.machine import Machine
from similis.run.network import build_model, pixels_of
from similis.run.parts import build_loader, open_source
from similis.run.result import RunResult
from similis.run.run import run
from similis.run.spec import parse_spec
from similis.run.untouched import COMPARED, embed_rows, evaluate_embedded, untouched_networks

DATA = {"cars196": (160, 160), "grocery": (160, 160), "cub200_2011": (224, 224)}  # crop, short side
SEEDS = {"cars196": 3, "grocery": 3, "cub200_2011": 1}
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
RECIPES: dict[str, dict[str, Any]] = {
    "head only": {"model": {"dim": 512, "trains": "head"}, "training": {"epochs": 20, "batch_size": 60}},
    "whole network, new head": {"model": {"dim": 512}, "training": {"epochs": 3, "batch_size": 60}},
    "whole network": {"training": {"epochs": 3, "batch_size": 60, "lr": 1e-4}},
    "layer-wise": {"training": {"epochs": 3, "batch_size": 60, "lr": 3e-4, "layer_decay": 0.8}},
}
INTERPOLATED = {"whole network": "interpolated"}  # recipe -> the row that goes back towards its start


def spec_of(data: str, recipe: str, seed: int) -> Any:
    """The specification of one row."""
    size, resize = DATA[data]
    model = {"weights": weights(), "image_size": size, "resize": resize, "dim": None} | RECIPES[recipe].get("model", {})
    return parse_spec({
        "data": {"source": data, "allow_counts": True, "validation_share": 0.2}, "model": model, "seed": seed,
        "training": {"refit": False, **RECIPES[recipe]["training"]}, "evaluation": {"ks": [1], "untouched": False},
    })  # fmt: skip


def rows_of(data: str, recipe: str, seed: int, machine: Machine) -> dict[str, dict[str, Any]]:
    """One training, as one row, or as two where its weights are also interpolated."""
    spec = spec_of(data, recipe, seed)
    result = run(spec, machine)
    untouched = untouched_scores(data, machine)
    rows = {recipe: compared(result.scores(), untouched, result, 1.0)}
    if recipe in INTERPOLATED:
        share, scores = interpolated_scores(result, machine)
        rows[INTERPOLATED[recipe]] = compared(scores, untouched, result, share)
    return rows


@cache  # the same for all recipes and seeds
def untouched_scores(data: str, machine: Machine) -> dict[int | None, Any]:
    """The scores of the untouched network on the test classes, by resolution."""
    spec = spec_of(data, "whole network", 0)
    source, found = open_source(spec, machine), {}
    for network in untouched_networks(spec, machine):
        found[pixels_of(network)] = evaluate_embedded(
            embed_rows(network, spec, machine, source, source.split.test), machine, source
        )
    return found


def interpolated_scores(result: RunResult, machine: Machine) -> tuple[float, Mapping[str, Any]]:
    """The share that validation chooses between start and end, and the test scores there."""
    spec = result.spec
    source, model = open_source(spec, machine), trained_model(result, machine)
    loader = build_loader(model, source, spec, machine)
    judge = partial(validation_recall, model, rows=source.split.validation, spec=spec, loader=loader)
    share, _ = best_share(model, build_model(spec, machine).state_dict(), SHARES, judge)
    found = evaluate_rows(model, loader, source.split.test, spec)
    return share, judge_of(found, source.manifest)(found, ks=(1,)).per_query


def compared(
    scores: Mapping[str, Any], untouched: Mapping[int | None, Any], result: RunResult, share: float
) -> dict[str, Any]:
    """Means, and the difference to the untouched network at each resolution with its interval."""
    labels = result.scores()["labels"]
    row: dict[str, Any] = {"epochs": result.epochs, "share": share, "address": result.address}
    for name in COMPARED:
        row[name] = float(scores[name].nanmean())
        for pixels, before in untouched.items():
            gain = mean_interval(scores[name] - before.per_query[name], labels)
            row[f"untouched {name} {pixels}"] = before.means[name]
            row[f"gain {name} {pixels}"] = list(gain)
    return row


def main() -> None:
    """Run what is asked for, write the record row by row, print the rows of the page."""
    jobs = {
        f"{data} {recipe} {seed}": (data, recipe, seed)
        for seed in range(max(SEEDS.values())) for data in DATA for recipe in RECIPES if seed < SEEDS[data]
    }  # fmt: skip
    asked = arguments(__doc__ or "", list(jobs))
    machine, found = Machine(root=Path("runs/fine-tuning"), device="cpu"), known_rows(asked.json)
    for name in [asked.only] if asked.only else [name for name in jobs if name not in found]:
        data, recipe, seed = jobs[name]
        found |= {f"{data} {row} {seed}": made for row, made in rows_of(data, recipe, seed, machine).items()}
        write_json(asked.json, "python -m benchmarks.fine_tuning", found)
    print(*untouched_rows(found), *(page_row(*row) for row in found.items()), sep="\n")


def page_row(name: str, row: Mapping[str, Any]) -> str:
    """One row of the table in results/fine-tuning.md."""
    data, rest = name.split(" ", 1)
    recipe, seed = rest.rsplit(" ", 1)
    pixels = DATA[data][0]
    cells = []
    for metric in COMPARED:
        value, low, high = (100 * part for part in row[f"gain {metric} {pixels}"])
        cells += [f"{100 * row[metric]:.1f}", f"{value:+.1f} ({low:+.1f} to {high:+.1f})"]
    return f"| {' | '.join([data, str(pixels), recipe, seed, *cells, format(row['share'], '.2f')])} |"


def untouched_rows(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Lines of the untouched network at each resolution that a data set has."""
    rows = {}
    for name, row in found.items():
        data = name.split(" ", 1)[0]
        for pixels in (key.split()[-1] for key in row if key.startswith("untouched recall@1")):
            cells = [f"{100 * row[f'untouched {metric} {pixels}']:.1f}" for metric in COMPARED]
            rows[data, pixels] = f"| {data} | {pixels} | untouched |  | {cells[0]} |  | {cells[1]} |  |  |"
    return list(rows.values())


if __name__ == "__main__":
    main()
