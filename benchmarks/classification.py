"""Which rule names a photo by its neighbours: ``python -m benchmarks.classification [--only ROW] [--json FILE]``.

Classes that no network here was trained on: all of Grocery, the test classes of CARS196 and CUB-200-2011, with the
features of EfficientNet-lite0 and lite1 as published, at 160 pixels. Of the classes a tenth is enrolled with five
photos, another tenth is not in the gallery, and all others have three quarters of their photos there. Up to 40 other
photos of each class ask. Three draws; intervals resample classes. Rules: the nearest photo, the class whose mean is
nearest, and the rule of ``classify``. "Unknown" is a photo below the threshold that refuses 5 % of the gallery's own
photos. ``SIMILIS_DATA`` names the folder of photos and of the weights of lite0,
``benchmarks.lite_weights`` makes those of lite1; features are kept below ``runs/classification``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

import similis
from benchmarks.lite_weights import weights
from benchmarks.rounds import arguments, measure_rows
from similis.retrieval.classification import classify_neighbors, unknown_threshold
from similis.retrieval.intervals import mean_interval
from similis.retrieval.search import search

PLACE, SIZE, DRAWS, SHOTS, ASKED = Path("runs/classification"), 160, 3, 5, 40
DATA, NETWORKS = ("grocery", "cars196", "cub200_2011"), ("lite0", "lite1")
SHARES = ("known right", "known refused", "enrolled right", "enrolled refused", "strangers refused", "as the first hit")


def features(data: str, network: str) -> tuple[Tensor, Tensor]:
    """Unit vectors and labels of the photos of a data set."""
    file = PLACE / f"{data}-{network}.pt"
    if not file.exists():
        model = similis.pretrained(f"tf_efficientnet_{network}", weights=weights(network), size=SIZE, device="cpu")
        opened = similis.open_data(data, allow_counts=True)
        opened = opened.select([row for row, part in enumerate(opened.parts) if data == "grocery" or part != "train"])
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"vectors": model.encode(opened), "labels": opened.labels}, file)
    held = torch.load(file)
    return normalize(held["vectors"], dim=1), held["labels"]


def divide(labels: Tensor, draw: int) -> dict[str, Tensor]:
    """Rows of the gallery, and of the photos that ask, of known, enrolled and strange classes."""
    chance, parts = torch.Generator().manual_seed(draw), {"gallery": [], "known": [], "enrolled": [], "strange": []}
    classes = labels.unique()
    few = max(3, len(classes) // 10)
    for place, label in enumerate(classes[torch.randperm(len(classes), generator=chance)]):
        rows = (labels == label).nonzero().flatten()
        rows = rows[torch.randperm(len(rows), generator=chance)]
        kind = "enrolled" if place < few else "strange" if place < 2 * few else "known"
        shown = {"enrolled": SHOTS, "strange": 0, "known": max(1, len(rows) * 3 // 4)}[kind]
        parts["gallery"].append(rows[:shown])
        parts[kind].append(rows[shown : shown + ASKED])
    return {name: torch.cat(rows) for name, rows in parts.items()}


def nearest(queries: Tensor, gallery: Tensor, labels: Tensor) -> Tensor:
    """The class of the nearest photo."""
    return labels[search(queries, gallery, 1).index[:, 0]]


def class_mean(queries: Tensor, gallery: Tensor, labels: Tensor) -> Tensor:
    """The class whose mean is nearest."""
    means = torch.zeros(int(labels.max()) + 1, gallery.shape[1]).index_add_(0, labels, gallery)
    return (queries @ normalize(means, dim=1).T).argmax(1)


def by_size(queries: Tensor, gallery: Tensor, labels: Tensor) -> Tensor:
    """The rule of ``Model.classify``."""
    return classify_neighbors(search(queries, gallery, 50), labels).labels


RULES: dict[str, Callable[..., Tensor]] = {"nearest": nearest, "class mean": class_mean, "for the size": by_size}


def measure(data: str, network: str) -> dict[str, Any]:
    """Rule -> shares with their intervals."""
    vectors, labels = features(data, network)
    found: dict[str, dict[str, list[tuple[Tensor, Tensor]]]] = {rule: {share: [] for share in SHARES} for rule in RULES}
    for draw in range(DRAWS):
        rows = divide(labels, draw)
        names, own = labels[rows["gallery"]].unique(return_inverse=True)
        gallery = vectors[rows["gallery"]]
        threshold = unknown_threshold(gallery, own)
        for rule, name in RULES.items():
            for kind in ("known", "enrolled", "strange"):
                queries, truth = vectors[rows[kind]], labels[rows[kind]]
                near = search(queries, gallery, 1)
                refused = near.similarity[:, 0] < threshold
                said, first = name(queries, gallery, own), own[near.index[:, 0]]
                told = {"right": (names[said] == truth) & ~refused, "refused": refused}
                word = "strangers" if kind == "strange" else kind
                for what, values in told.items():
                    if f"{word} {what}" in SHARES:
                        found[rule][f"{word} {what}"].append((values.double(), truth))
                if kind == "known":
                    found[rule]["as the first hit"].append(((said == first).double(), truth))
    return {
        rule: {name: list(mean_interval(*map(torch.cat, zip(*parts, strict=True)))) for name, parts in shares.items()}
        for rule, shares in found.items()
    }


def page_rows(name: str, row: dict[str, Any]) -> list[str]:
    """Lines of the table in results/fine-tuning.md."""
    return [
        f"| {name.replace(' ', ' | ')} | {rule} | {' | '.join(map(cell, shares.values()))} |"
        for rule, shares in row.items()
    ]


def cell(interval: Sequence[float]) -> str:
    """A share in per cent with its interval."""
    value, low, high = (100 * part for part in interval)
    return f"{value:.1f} ({low:.1f} to {high:.1f})"


def main() -> None:
    """Measure, print, write."""
    jobs = {f"{data} {network}": (data, network) for data in DATA for network in NETWORKS}
    asked = arguments(__doc__ or "", list(jobs))
    for each in measure_rows("classification", asked, jobs, lambda name: measure(*jobs[name])).items():
        print(*page_rows(*each), sep="\n")


if __name__ == "__main__":
    main()
