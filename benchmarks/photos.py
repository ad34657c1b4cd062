"""Ours against a loop written by hand with pytorch-metric-learning, on real photos: ``python -m benchmarks.photos``.

Both sides take EfficientNet-lite0 with its ImageNet weights, GAP + GMP, a linear head of 512, frozen batch norm,
channels-last, ProxyAnchor with proxies at 100 times the rate, AdamW, random batches of 100, a random crop from the same
short side with flips, and the same number of epochs on all training classes. They start together as two processes of
one thread each, so that both have the same machine; the time is each one's own, from its start to its test recall.
The loop by hand keeps its resized photos in memory, which is generous: most loops decode every photo in every epoch.

``SIMILIS_DATA`` names the folder of photos and weights. A row takes ten minutes or more for each side.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.rounds import arguments, print_table, write_json
from similis.data.images import prepare
from similis.data.manifest import Manifest
from similis.data.open_data import open_data
from similis.model.embedder import build_embedder
from similis.retrieval.evaluate import evaluate
from similis.run.machine import Machine
from similis.run.run import run
from similis.run.spec import parse_spec
from similis.values import Embedded

WEIGHTS = "weights/tf_efficientnet_lite0_imagenet.safetensors"


class Row(NamedTuple):
    """Data set, crop, short side before the crop, epochs, seed."""

    data: str
    size: int
    resize: int
    epochs: int
    seed: int


ROWS = {
    "cub-96": Row("cub200_2011", 96, 128, 5, 0),
    "cub-128": Row("cub200_2011", 128, 176, 6, 0),
    "cars-96": Row("cars196", 96, 128, 5, 0),
}


def weights() -> str:
    """The file of weights."""
    return str(Path(os.environ["SIMILIS_DATA"]) / WEIGHTS)


def ours(row: Row) -> dict[str, float]:
    """One run of the package."""
    spec = parse_spec({
        "data": {"source": row.data, "allow_counts": True},
        "model": {"weights": weights(), "image_size": row.size, "resize": row.resize},
        "objective": {"loss": "proxy_anchor"},
        "training": {"epochs": row.epochs, "lr": 2e-4, "policy": "resize-crop", "select": "last", "sampler": "random"},
        "seed": row.seed,
    })  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        result = run(spec, Machine(root=Path(folder)))
    return {"recall@1": result.test["recall@1"], "map@r": result.test["map@r"]}


class Photos(torch.utils.data.Dataset[tuple[Tensor, int]]):
    """A data set as one writes it: resized photos in memory, a random crop with flips, or the centre."""

    def __init__(self, manifest: Manifest, split: str, row: Row) -> None:
        from torchvision import transforms

        rows = [number for number, part in enumerate(manifest.values("split")) if part == split]
        self.pixels = [prepare(manifest.read_bytes(number), resize=row.resize) for number in rows]
        names = sorted({int(manifest.labels[number]) for number in rows})
        self.labels = [names.index(int(manifest.labels[number])) for number in rows]
        crops = [transforms.RandomCrop(row.size), transforms.RandomHorizontalFlip()]
        shape = crops if split == "train" else [transforms.CenterCrop(row.size)]
        look = [transforms.ToTensor(), transforms.Normalize([127 / 255] * 3, [128 / 255] * 3)]
        self.change = transforms.Compose([transforms.ToPILImage(), *shape, *look])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        image: Tensor = self.change(self.pixels[place])
        return image, self.labels[place]


def by_hand(row: Row) -> dict[str, float]:
    """The loop that one writes with the peer's loss."""
    from pytorch_metric_learning.losses import ProxyAnchorLoss

    torch.manual_seed(row.seed)
    manifest = open_data(row.data, allow_counts=True)
    photos = Photos(manifest, "train", row)
    model = build_embedder(
        backbone="tf_efficientnet_lite0", weights=weights(), freeze_batch_norm=True, image_size=row.size, seed=row.seed
    ).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks this form
    loss = ProxyAnchorLoss(max(photos.labels) + 1, 512, margin=0.1, alpha=32)
    groups: list[dict[str, Any]] = [
        {"params": list(model.parameters())},
        {"params": list(loss.parameters()), "lr": 2e-2},
    ]
    optimiser = torch.optim.AdamW(groups, lr=2e-4, weight_decay=1e-4)
    loader = torch.utils.data.DataLoader(photos, batch_size=100, shuffle=True, drop_last=True)
    for _ in range(row.epochs):
        model.train()
        for images, labels in loader:
            optimiser.zero_grad()
            value = loss(model(images.contiguous(memory_format=torch.channels_last)), labels)
            value.backward()
            nn.utils.clip_grad_value_([*model.parameters(), *loss.parameters()], 10.0)
            optimiser.step()
    return tested(model.eval(), Photos(manifest, "test", row))


@torch.no_grad()
def tested(model: nn.Module, photos: Photos) -> dict[str, float]:
    """Recall on the test classes, by the same judge as ours."""
    batches = torch.utils.data.DataLoader(photos, batch_size=100)
    vectors = torch.cat([model(images.contiguous(memory_format=torch.channels_last)) for images, _ in batches])
    found = evaluate(Embedded(vectors, torch.tensor(photos.labels), torch.arange(len(photos))))
    return {"recall@1": found.means["recall@1"], "map@r": found.means["map@r"]}


def side(name: str, row: Row) -> None:
    """In a process of its own: run one side and print what it found."""
    torch.set_num_threads(1)
    begun = time.perf_counter()
    found = {"ours": ours, "by hand": by_hand}[name](row)
    print(json.dumps({**found, "seconds": time.perf_counter() - begun}))


def both(row: Row) -> dict[str, dict[str, float]]:
    """Both sides at the same time, each in a process of its own."""
    children = {
        name: subprocess.Popen(
            [sys.executable, "-c", f"from benchmarks.photos import Row, side; side({name!r}, {row!r})"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("ours", "by hand")
    }
    answers: dict[str, dict[str, float]] = {}
    for name, child in children.items():
        printed, _ = child.communicate()
        if child.returncode:
            raise RuntimeError(f"the side {name!r} of {row} failed; its message stands above")
        answers[name] = json.loads(printed.splitlines()[-1])
    return answers


def main() -> None:
    """Measure the rows, print a table."""
    asked = arguments(__doc__ or "", list(ROWS))
    figures: dict[str, Any] = {name: both(row) for name, row in ROWS.items() if asked.only in (None, name)}
    lines = [
        [f"{name}, {way}", 100 * found["recall@1"], 100 * found["map@r"], found["seconds"] / 60]
        for name, ways in figures.items()
        for way, found in ways.items()
    ]
    print_table("photos: ours and a loop by hand, side by side", ["row", "R@1", "MAP@R", "minutes"], lines)
    write_json(asked.json, "python -m benchmarks.photos", figures)


if __name__ == "__main__":
    main()
