"""R@1 without any training, the floors of every table: ``python -m benchmarks.floors [--only ROW] [--json FILE]``.

``frozen``: pooled ImageNet features of EfficientNet-lite0, no head. ``untrained``: the network that a study trains,
with the head (and for small_conv all weights) from the seed, one number for each seed. Test classes of the literature,
cosine, a query never finds itself. ``SIMILIS_DATA`` names the folder of photos and weights. The committed record is
``results/floors.json``; on an idle core a row at 224 pixels takes minutes, every other one about a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from benchmarks.lite_weights import weights
from benchmarks.rounds import arguments, print_table, write_json
from similis.data.open_data import open_data
from similis.networks.embedder import build_embedder
from similis.retrieval.embed import embed
from similis.retrieval.evaluate import evaluate
from similis.run.machine import Machine
from similis.run.parts import images_for

SHOWN = ("recall@1", "recall@2", "recall@4", "recall@8")


@dataclass(frozen=True)
class Row:
    """Data set, centre crop, short side before it (None: the crop's), what stands behind the features, seeds."""

    data: str
    size: int
    resize: int | None = None
    backbone: str = "tf_efficientnet_lite0"
    pooling: str = "gap+gmp"
    dim: int = 512
    seeds: tuple[int, ...] = (0,)
    options: dict[str, str] = field(default_factory=dict)


def small(data: str, width: str, seeds: int) -> Row:
    """The small network of the studies on characters and emoji."""
    return Row(data, 20, None, "small_conv", "gap", 128, tuple(range(seeds)), {"width": width})


ROWS = {
    "cub-96 untrained": Row("cub200_2011", 96, 128, seeds=(0, 1)),
    "cub-128 untrained": Row("cub200_2011", 128, 171, seeds=(0, 1)),
    "cars-96 untrained": Row("cars196", 96, 128, seeds=(0, 1)),
    "cub-96 frozen": Row("cub200_2011", 96, 128, dim=0),
    "cub-128 frozen": Row("cub200_2011", 128, 171, dim=0),
    "cars-96 frozen": Row("cars196", 96, 128, dim=0),
    "cub-224 frozen": Row("cub200_2011", 224, 224, dim=0),
    "cub-224 frozen, average pooling": Row("cub200_2011", 224, 224, pooling="gap", dim=0),
    "omniglot-slim untrained": small("omniglot", "slim", 5),
    "omniglot-narrow untrained": small("omniglot", "narrow", 3),
    "emoji-slim untrained": small("emoji", "slim", 2),
}


def floor(row: Row) -> dict[str, list[float]]:
    """Retrieval metrics on the test classes, one of each for every seed."""
    manifest = open_data(row.data, allow_counts=True)
    test = torch.tensor([number for number, part in enumerate(manifest.values("split")) if part == "test"])
    found: dict[str, list[float]] = {key: [] for key in SHOWN}
    for seed in row.seeds:
        model = build_embedder(
            backbone=row.backbone, weights=weights() if row.backbone != "small_conv" else None, pooling=row.pooling,
            dim=row.dim, image_size=row.size, seed=seed, options=row.options,
        )  # fmt: skip
        if row.resize is not None and model.preprocessing is not None:
            model.backbone.preprocessing = replace(model.preprocessing, resize=row.resize)
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks this form
        loader = images_for(model, manifest, Machine(), policies=("eval",))
        means = evaluate(embed(model, loader.ordered(test, batch_size=100), count=len(test))).means
        for key in SHOWN:
            found[key].append(means[key])
    return found


def page_row(name: str, found: dict[str, list[float]]) -> str:
    """The line of a row on the page results/photos.md."""
    row, recall = ROWS[name], [100 * value for value in found["recall@1"]]
    small = row.backbone == "small_conv"
    network = f"small_conv, {row.options['width']}" if small else "EfficientNet-lite0"
    kind = "random weights" if small else "random head" if row.dim else f"features, {row.pooling}"
    crop = f"{row.size}" + (f" from {row.resize}" if row.resize else "")
    each = ", ".join(f"{value:.2f}" for value in recall)
    return f"| {row.data} | {crop} | {network} | {kind} | {sum(recall) / len(recall):.2f} | {each} |"


def main() -> None:
    """Measure the rows, print a table."""
    asked = arguments(__doc__ or "", list(ROWS))
    figures = {name: floor(row) for name, row in ROWS.items() if asked.only in (None, name)}
    lines = [
        [f"{name}, seed {seed}", *(100 * found[key][place] for key in SHOWN)]
        for name, found in figures.items()
        for place, seed in enumerate(ROWS[name].seeds)
    ]
    print_table("without training", ["row", *SHOWN], lines)
    write_json(asked.json, "python -m benchmarks.floors", figures)


if __name__ == "__main__":
    main()
