"""``similis evaluate DATA --model NAME|RUN``: how well any model finds the images of one class, on one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from similis.cli.json_output import Result
from similis.cli.options import AllowCounts, Device, KeepTrained, Loaders, Root, Source, Weights
from similis.cli.screen import show_table

if TYPE_CHECKING:
    from similis.model.model import Model


def evaluate(
    *,
    data: Source,
    model: Annotated[list[str], typer.Option(help="A run, a saved model or a network's name; may be given often.")],
    weights: Weights = "pretrained",
    size: Annotated[list[int] | None, typer.Option(help="Pixels of a side; may be given often. [its own]")] = None,
    part: Annotated[str, typer.Option(help="test or all. [test, where the data set states it]")] = "",
    keep_trained: KeepTrained = False,
    allow_counts: AllowCounts = False,
    root: Root = None,
    workers: Loaders = 0,
    device: Device = "auto",
) -> Result:
    """Evaluate models on the same images: pretrained networks by name, or models that you trained."""
    from similis.data.open_data import open_data
    from similis.model.evaluation import evaluate_model, evaluated_rows
    from similis.model.load import ModelChoice

    opened = open_data(data, root=root, allow_counts=allow_counts)
    sizes: list[int | None] = [*size] if size else [None]
    choices = [ModelChoice(name, weights, pixels, device, workers) for name in model for pixels in sizes]
    features = opened.vectors.shape[1] if opened.has("vector") else None
    models = [each.open(features) for each in choices if each.size == sizes[0] or not each.is_folder]
    rows, words, seen = evaluated_rows(opened, part, models, keep_trained=keep_trained)
    found = [evaluate_model(each, opened, rows) for each in models]
    table = [model_row(each, means) for each, means in zip(models, found, strict=True)]
    heads = ("model", "pixels", "dim", "R@1 %", "low", "high", "R@8 %", "MAP@R %")
    show_table(f"{opened.name}, {words}; low to high: 95 % interval of R@1 over classes", heads, table)
    named = [{"model": row[0], "pixels": row[1], "dim": int(row[2])} for row in table]
    rows_told = [a | b for a, b in zip(named, found, strict=True)]
    return {"data": opened.name, "measured": words, "trained_classes": seen, "kept": keep_trained, "models": rows_told}


def model_row(model: Model, found: Mapping[str, float]) -> tuple[str, ...]:
    """Name, resolution, embedding size and numbers of a model."""
    name = model.name if model.folder is None else model.folder.name
    pixels = "vectors" if model.preprocessing is None else str(model.preprocessing.size)
    shown = ("recall@1", "low", "high", "recall@8", "map@r")
    return (name, pixels, str(model.dim), *(f"{100 * found[key]:.2f}" for key in shown))
