"""Clusters of classes that nobody labelled: ``python -m benchmarks.clusters [--only ROW] [--json FILE]``.

Whole classes of CUB-200-2011, CARS196 and Omniglot, at most 2,500 images of each, of which the second half of the
classes is clustered; embedded by EfficientNet-lite0 as it was published, at 128 pixels. Number of clusters, pair F1 and
AMI at three resolutions, beside the best of ten starts of k-means with the true number of clusters.
``hundred-thousand`` clusters 100,000 vectors of 128 dimensions and 2,000 classes, and says how long it takes.
``SIMILIS_DATA`` names the folder of images and of the weights.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from benchmarks.data_faults import PIXELS, whole_classes
from benchmarks.lite_weights import weights
from benchmarks.rounds import arguments, measure_rows
from similis.data.open_data import open_data
from similis.model.load import pretrained
from similis.retrieval.evaluate import agreement as partition_agreement
from similis.retrieval.grouping import group_vectors
from similis.retrieval.similarity import to_comparable

DATA = ("cub200_2011", "cars196", "omniglot")
LARGE = "hundred-thousand"
KMEANS = "k-means, true number"
RESOLUTIONS = (1, 5, 20)
SIZE, DIM, CLASSES = 100_000, 128, 2_000


def agreement(labels: Tensor, answer: Tensor) -> dict[str, float]:
    """How many clusters there are, and how well they agree with the classes."""
    found = partition_agreement(labels, answer)
    return {"clusters": len(torch.unique(answer)), "pair F1": found["pair_f1"], "AMI": found["ami"]}


def measure(name: str) -> dict[str, float | dict[str, float]]:
    """Agreement with the classes of the second half."""
    data = open_data(name, allow_counts=True)
    data = data.select(sorted(whole_classes(data, np.random.default_rng(0))))
    labels = torch.unique(data.labels, return_inverse=True)[1]
    held = (labels > int(labels.max()) // 2).nonzero()[:, 0]
    y, model = labels[held], pretrained("tf_efficientnet_lite0", weights=weights(), size=PIXELS, device="cpu")
    x, classes = to_comparable(model.encode(data.select(held.tolist()))), len(torch.unique(y))
    found: dict[str, float | dict[str, float]] = {"images": len(y), "classes": classes}
    for resolution in RESOLUTIONS:
        found[f"resolution {resolution}"] = agreement(y, group_vectors(x, resolution))
    peer = KMeans(classes, n_init=10, random_state=0).fit_predict(x.numpy())
    return {**found, KMEANS: agreement(y, torch.from_numpy(peer))}


def measure_large() -> dict[str, float | dict[str, float]]:
    """Seconds for many vectors of overlapping classes, at the default resolution."""
    chance = torch.Generator().manual_seed(0)
    labels = torch.arange(SIZE) % CLASSES
    centres = torch.nn.functional.normalize(torch.randn(CLASSES, DIM, generator=chance), dim=1)
    vectors = to_comparable(centres[labels] + 0.08 * torch.randn(SIZE, DIM, generator=chance))
    begin = time.perf_counter()
    answer = group_vectors(vectors)
    spent = time.perf_counter() - begin
    sizes = {"vectors": SIZE, "dimensions": DIM, "classes": CLASSES}
    return {**sizes, "seconds": spent, **agreement(labels, answer)}


def page_row(name: str, found: dict) -> str:
    """The line of the page about one data set."""
    ways = [found[f"resolution {resolution}"] for resolution in RESOLUTIONS]
    cells = [f"{found['images']:,}", f"{found['classes']}", *(f"{way['clusters']}" for way in ways)]
    cells += [f"{way[metric]:.3f}" for metric in ("pair F1", "AMI") for way in [*ways, found[KMEANS]]]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Measure and write."""
    rows = [*DATA, LARGE]
    asked = arguments(__doc__ or "", rows)
    measure_rows("clusters", asked, rows, lambda row: measure_large() if row == LARGE else measure(row))


if __name__ == "__main__":
    main()
