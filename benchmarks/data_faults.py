"""Planted faults in real photos: ``python -m benchmarks.data_faults [--only ROW] [--json FILE]``.

Whole classes of CUB-200-2011, CARS196 and Grocery, at most 2,500 photos of each; the first half of the classes trains,
the rest tests. Planted: 5 % wrong labels; copies of 2 % of the test photos in train (80 to 100 % of the area, JPEG at
quality 40, half of them mirrored); 2 % foreign photos of the other data sets. The model is EfficientNet-lite0 as it
was published, at 128 pixels. Cuts were fixed on CUB.

- duplicates: pairs across the parts. Real leaks of the data sets count as false here. Beside it the perceptual hash
  of ``imagehash``, the better of an image and its mirror image.
- labels: average precision, beside the better of cleanlab's scores on the same out-of-fold votes.
- strangers: average precision, beside the distance to the nearest neighbour.

``SIMILIS_DATA`` names the folder of photos and of the weights. The peers are not dependencies: ``pip install cleanlab
imagehash``; without them their columns are empty.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.lite_weights import weights
from benchmarks.rounds import arguments, measure_rows
from similis.data.copies import make_copy, open_image
from similis.data.manifest import Manifest, from_columns
from similis.data.open_data import open_data
from similis.model.faults import DOUBT, STRANGE, copy_cuts, pair_overlap
from similis.model.load import pretrained
from similis.model.model import Model
from similis.retrieval.duplicates import close_pairs
from similis.retrieval.similarity import to_comparable
from similis.retrieval.suspects import TEMPERATURE, VOTERS, label_votes, nearest_samples, strangeness
from similis.values import Neighbors

DATA = ("cub200_2011", "cars196", "grocery")
MOST, PIXELS = 2500, 128


def whole_classes(data: Manifest, generator: np.random.Generator) -> list[int]:
    """Rows of random classes, not more than MOST."""
    labels, rows = data.labels.numpy(), []
    for label in generator.permutation(np.unique(labels)):
        held = np.flatnonzero(labels == label).tolist()
        if len(rows) + len(held) > MOST:
            break
        rows += held
    return rows


def plant(name: str, seed: int = 0) -> tuple[Manifest, dict[str, Any]]:
    """A data set with planted faults, and where they are."""
    generator = np.random.default_rng(seed)
    clean = open_data(name, allow_counts=True)
    rows = whole_classes(clean, generator)
    labels = np.unique(clean.labels.numpy()[rows], return_inverse=True)[1]
    classes = int(labels.max()) + 1
    test = labels >= classes // 2
    contents = [clean.read_bytes(row) for row in rows]
    originals = generator.choice(np.flatnonzero(test), round(0.02 * len(rows)), replace=False)
    foreign = [
        other.read_bytes(int(row))
        for each in DATA if each != name for other in [open_data(each, allow_counts=True)]
        for row in generator.choice(len(other), round(0.01 * len(rows)), replace=False)
    ]  # fmt: skip
    for row in originals:
        stored = io.BytesIO()
        make_copy(open_image(clean, rows[row]), generator).save(stored, "PNG")
        contents.append(stored.getvalue())
    drawn = generator.integers(0, classes // 2, len(originals)), generator.integers(0, classes, len(foreign))
    given = np.concatenate([labels, *drawn])
    wrong = generator.choice(len(rows), round(0.05 * len(rows)), replace=False)
    given[wrong] = (given[wrong] + generator.integers(1, classes, len(wrong))) % classes
    parts = ["test" if each else "train" for each in test] + ["train"] * len(originals)
    parts += ["test" if label >= classes // 2 else "train" for label in given[len(parts) :]]
    columns = {
        "id": list(range(len(given))), "path": [f"{n}.jpg" for n in range(len(given))], "label": given.tolist(),
        "class_name": [f"class {label}" for label in given], "split": parts, "bytes": [*contents, *foreign],
    }  # fmt: skip
    copies = {(int(row), len(rows) + n) for n, row in enumerate(originals)}
    where = {"wrong": wrong, "copies": copies, "foreign": np.arange(len(contents), len(given)), "photos": len(rows)}
    return from_columns(name, columns), where


def average_precision(truth: np.ndarray, scores: np.ndarray) -> float:
    """Mean precision at the true ones, in falling order of the scores."""
    hit = truth[np.argsort(-scores, kind="stable")]
    return float((np.cumsum(hit) / np.arange(1, len(hit) + 1))[hit].mean())


def measure_copies(
    model: Model, data: Manifest, vectors: Tensor, near: Neighbors, truth: set[tuple[int, int]]
) -> dict[str, Any]:
    """Precision and recall of pairs across the parts at the calibrated cuts, the whole curve, and the peer."""
    similar, same = copy_cuts(model.encode, data, vectors)
    pairs = close_pairs(near, similar)
    parts = np.array(data.parts)
    pairs = pairs[torch.from_numpy(parts[pairs[:, 0]] != parts[pairs[:, 1]])]
    scores = pair_overlap(data, pairs).numpy()
    hit = np.array([(int(a), int(b)) in truth for a, b in pairs])
    found = {"similarity cut": similar, "overlap cut": same, "candidates": len(pairs)}
    chosen = scores >= same
    found |= {"precision": float(hit[chosen].mean()), "recall": float(hit[chosen].sum() / len(truth))}
    found |= {"missed by embeddings": 1 - float(hit.sum() / len(truth))}
    false = np.flatnonzero(chosen & ~hit)
    found["others above the cut"] = [(*pairs[n].tolist(), round(float(scores[n]), 4)) for n in false]
    return found | curve("", hit, scores, len(truth)) | measure_hashes(data, parts, truth)


def curve(prefix: str, hit: np.ndarray, scores: np.ndarray, total: int) -> dict[str, float]:
    """The largest recall at a precision of 0.95 or more."""
    order = np.argsort(-scores, kind="stable")
    true = np.cumsum(hit[order])
    precise = true / np.arange(1, len(order) + 1) >= 0.95
    return {f"{prefix}recall at precision 0.95": float(true[precise].max() / total) if precise.any() else 0.0}


def measure_hashes(data: Manifest, parts: np.ndarray, truth: set[tuple[int, int]]) -> dict[str, float]:
    """The same for the perceptual hash."""
    try:
        import imagehash
    except ImportError:
        return {}
    from PIL import ImageOps

    images = [open_image(data, row) for row in range(len(data))]
    plain, mirrored = (
        np.array([imagehash.phash(turn(image)).hash.flatten() for image in images])
        for turn in (lambda image: image, ImageOps.mirror)
    )
    train, test = np.flatnonzero(parts == "train"), np.flatnonzero(parts == "test")
    far = np.minimum(*((plain[train][:, None] != some[test][None]).sum(axis=2) for some in (plain, mirrored)))
    rows, columns = np.indices(far.shape)
    hit = np.array([(int(test[c]), int(train[r])) in truth for r, c in zip(rows.flat, columns.flat, strict=True)])
    return curve("phash ", hit, -far.flatten().astype(float), len(truth))


def measure_labels(near: Neighbors, labels: Tensor, wrong: np.ndarray, count: int) -> dict[str, Any]:
    """Average precision of doubts, and of cleanlab on the same votes; foreign photos and copies do not count."""
    votes = label_votes(near, labels)
    truth = np.isin(np.arange(count), wrong)
    doubt = votes.doubt.numpy()[:count]
    chosen = doubt >= DOUBT
    found = {"labels AP": average_precision(truth, doubt), "labels listed": int(chosen.sum())}
    found["labels precision at the cut"] = float(truth[chosen].mean()) if chosen.any() else 0.0
    found["labels recall at the cut"] = float(truth[chosen].sum() / truth.sum())
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError:
        return found
    weights_ = ((near.similarity - near.similarity[:, :1]) / TEMPERATURE).exp()
    shares = torch.zeros(len(labels), int(labels.max()) + 1).scatter_add_(1, labels[near.index], weights_)
    shares = (shares / shares.sum(dim=1, keepdim=True)).numpy()[:count]
    for method in ("self_confidence", "normalized_margin"):
        scores = get_label_quality_scores(labels.numpy()[:count], shares, method=method)
        found[f"cleanlab {method} AP"] = average_precision(truth, -scores)
    return found


def measure(name: str) -> dict[str, Any]:
    """All finders on one data set."""
    data, where = plant(name)
    model = pretrained("tf_efficientnet_lite0", weights=weights(), size=PIXELS, device="cpu")
    vectors = to_comparable(model.encode(data))
    near = nearest_samples(vectors, VOTERS)
    labels = data.labels
    strange, foreign = strangeness(near, labels).numpy(), np.isin(np.arange(len(data)), where["foreign"])
    chosen = strange >= STRANGE
    return {
        "photos": where["photos"],
        "classes": int(labels.max()) + 1,
        **measure_copies(model, data, vectors, near, where["copies"]),
        **measure_labels(near, labels, where["wrong"], where["photos"]),
        "strangers AP": average_precision(foreign, strange),
        "nearest neighbour AP": average_precision(foreign, -near.similarity[:, 0].numpy()),
        "strangers precision at the cut": float(foreign[chosen].mean()) if chosen.any() else 0.0,
        "strangers recall at the cut": float(foreign[chosen].sum() / foreign.sum()),
    }


NAMES = {"cub200_2011": "CUB", "cars196": "CARS196", "grocery": "Grocery"}
COLUMNS = (
    "precision", "recall", "phash recall at precision 0.95", "labels AP", "cleanlab self_confidence AP", "strangers AP",
    "nearest neighbour AP",
)  # fmt: skip


def page_row(name: str, found: dict[str, Any]) -> str:
    """The line of the page about one data set."""
    cells = [NAMES[name], f"{found['photos']:,}", *(f"{found[key]:.3f}" for key in COLUMNS)]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure the data sets."""
    measure_rows("data_faults", arguments(__doc__ or "", list(DATA)), DATA, measure)


if __name__ == "__main__":
    main()
