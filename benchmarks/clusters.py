"""Clusters of unseen classes: ``python -m benchmarks.clusters [--only ROW] [--json FILE]``.

Whole classes of CUB-200-2011, CARS196 and Omniglot, at most 2,500 images of each, embedded by EfficientNet-lite0 as it
was published, at 128 pixels. The first half of the classes chooses the threshold; pair F1 and AMI are those of the
other half. Beside it k-means with the true number of clusters, and scikit-learn's HDBSCAN with its defaults (noise
counts as clusters of one). ``hundred-thousand`` clusters 100,000 vectors of 128 dimensions and 2,000 classes, and says
how long it takes. ``SIMILIS_DATA`` names the folder of images and of the weights.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor

from benchmarks.data_faults import PIXELS, whole_classes
from benchmarks.lite_weights import weights
from benchmarks.rounds import arguments, print_table, write_json
from similis.data.open_data import open_data
from similis.retrieval.grouping import group_vectors, grouping_threshold
from similis.retrieval.metrics.agreement import ami, pair_f1
from similis.retrieval.metrics.clustering import kmeans
from similis.retrieval.similarity import to_comparable
from similis.run.load import pretrained

DATA = ("cub200_2011", "cars196", "omniglot")
LARGE = "hundred-thousand"
METHODS = ("ours", "k-means, true number", "HDBSCAN")
SIZE, DIM, CLASSES = 100_000, 128, 2_000


def hdbscan(vectors: Tensor) -> Tensor:
    """Clusters of HDBSCAN; what it calls noise stands alone."""
    from sklearn.cluster import HDBSCAN

    found = torch.from_numpy(HDBSCAN(copy=True).fit_predict(vectors.numpy())).long()
    noise = (found < 0).nonzero()[:, 0]
    found[noise] = int(found.max()) + 1 + torch.arange(len(noise))
    return found


def measure(name: str) -> dict[str, float]:
    """Agreement of the three methods with the classes of the second half."""
    data = open_data(name, allow_counts=True)
    data = data.select(sorted(whole_classes(data, np.random.default_rng(0))))
    labels = torch.unique(data.labels, return_inverse=True)[1]
    vectors = to_comparable(
        pretrained("tf_efficientnet_lite0", weights=weights(), size=PIXELS, device="cpu").encode(data)
    )
    seen = labels <= int(labels.max()) // 2
    threshold, chosen = grouping_threshold(vectors[seen], labels[seen])
    x, y = vectors[~seen], labels[~seen]
    classes = len(torch.unique(y))
    answers = {
        "ours": group_vectors(x, threshold).assignment,
        "k-means, true number": kmeans(x, classes, generator=torch.Generator().manual_seed(0)).assignment,
        "HDBSCAN": hdbscan(x),
    }
    found = {"images": len(y), "classes": classes, "threshold": threshold, "pair F1 where it was chosen": chosen}
    for method, answer in answers.items():
        found[f"{method}: clusters"] = len(torch.unique(answer))
        found[f"{method}: pair F1"] = pair_f1(y, answer)
        found[f"{method}: AMI"] = ami(y, answer)
    return found


def measure_large() -> dict[str, float]:
    """Seconds for many vectors; classes overlap, so that components are larger than classes."""
    chance = torch.Generator().manual_seed(0)
    labels = torch.arange(SIZE) % CLASSES
    centres = torch.nn.functional.normalize(torch.randn(CLASSES, DIM, generator=chance), dim=1)
    vectors = to_comparable(centres[labels] + 0.08 * torch.randn(SIZE, DIM, generator=chance))
    begin = time.perf_counter()
    found = group_vectors(vectors, 0.4)
    spent = time.perf_counter() - begin
    return {
        "vectors": SIZE, "dimensions": DIM, "classes": CLASSES, "seconds": spent,
        "clusters": int(found.assignment.max()) + 1, "pair F1": pair_f1(labels, found.assignment),
        "approximate": found.approximate,
    }  # fmt: skip


def page_row(name: str, found: dict[str, float]) -> str:
    """The line of the page about one data set."""
    cells = [f"{found['images']:,}", f"{found['classes']}", f"{found['ours: clusters']}"]
    cells += [f"{found[f'{method}: {metric}']:.3f}" for metric in ("pair F1", "AMI") for method in METHODS]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Measure and print a table."""
    asked = arguments(__doc__ or "", [*DATA, LARGE])
    rows = [asked.only] if asked.only else [*DATA, LARGE]
    found = {row: measure_large() if row == LARGE else measure(row) for row in rows}
    for row, figures in found.items():
        print_table(row, ("", "value"), list(figures.items()))
    write_json(asked.json, "clusters", found)


if __name__ == "__main__":
    main()
