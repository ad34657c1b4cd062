"""What ``benchmarks.losses`` measures: one step (forward and backward) of ours, of the peer, of the bare program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from similis.objective.context import tiles
from similis.objective.loss import loss
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.training.gradient_cache import cached_embeddings

Step = Callable[[], Any]

# name: (loss, options, the peer's class, its arguments, the largest batch that the peer gets through here)
PEERS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any], int]] = {
    "triplet": ("triplet", {"geometry": "euclid", "margin": 0.1}, "TripletMarginLoss", {"margin": 0.1}, 1024),
    "nt_xent": ("nt_xent", {"temperature": 0.1}, "NTXentLoss", {"temperature": 0.1}, 512),
    "lifted song": ("lifted", {"form": "song", "sphere": True}, "LiftedStructureLoss", {}, 512),
    "lifted generalised":
        ("lifted", {"form": "generalised", "sphere": True}, "GeneralizedLiftedStructureLoss", {}, 2048),
    "contrastive": ("contrastive", {"geometry": "euclid", "margin": 1.0}, "ContrastiveLoss",
                    {"pos_margin": 0, "neg_margin": 1}, 2048),
    "multi_similarity": ("multi_similarity", {"mined": False}, "MultiSimilarityLoss", {}, 2048),
    "supcon": ("supcon", {"temperature": 0.1}, "SupConLoss", {"temperature": 0.1}, 2048),
    "circle": ("circle", {"scale": 80.0, "margin_cos": 0.4}, "CircleLoss", {"m": 0.4, "gamma": 80}, 2048),
    "nca": ("nca", {"sphere": True}, "NCALoss", {}, 2048),
    "margin": ("margin", {"learnable": False}, "MarginLoss", {}, 1024),
    "smooth_ap": ("smooth_ap", {}, "SmoothAPLoss", {}, 512),
    "npair pairs": ("npair", {"positives": "pairs", "l2": 0.0, "sphere": True}, "NPairsLoss", {}, 2048),
}  # fmt: skip
# as above, with class vectors; the peer's sizes are num_classes and embedding_size
PROXY_PEERS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "normface": ("normface", {}, "NormalizedSoftmaxLoss", {}),
    "arcface": ("arcface", {}, "ArcFaceLoss", {}),
    "cosface": ("cosface", {}, "CosFaceLoss", {}),
    "subcenter_arcface": ("subcenter_arcface", {"centers": 3}, "SubCenterArcFaceLoss", {"sub_centers": 3}),
    "proxy_nca_pp": ("proxy_nca_pp", {}, "ProxyNCALoss", {"softmax_scale": 9}),
    "soft_triple": ("soft_triple", {"centers": 10, "tau": 0.0}, "SoftTripleLoss", {"centers_per_class": 10}),
    "proxy_anchor": ("proxy_anchor", {}, "ProxyAnchorLoss", {}),
}
PROXIES: dict[str, dict[str, Any]] = {
    "softmax": {}, "normface": {}, "arcface": {}, "cosface": {}, "subcenter_arcface": {"centers": 2}, "proxy_nca": {},
    "proxy_nca_pp": {}, "soft_triple": {"centers": 2}, "proxy_anchor": {},
    "proxy_gml": {"subproxies": 1, "neighbors": 20, "regularisation": 0.0},
}  # fmt: skip
# label: options of the loss that is its first word
ONE_PASS: dict[str, dict[str, Any]] = {
    "contrastive": {}, "lifted generalised": {"form": "generalised"}, "lifted song": {"form": "song"},
    "nca": {"sphere": True}, "npair": {"sphere": True}, "nt_xent": {}, "supcon": {}, "circle": {}, "margin": {},
    "multi_similarity unmined": {"mined": False},
}  # fmt: skip
TWO_PASS: dict[str, dict[str, Any]] = {"multi_similarity": {}, "lifted deepmetric": {"form": "deepmetric"}}
OWN_LAW: dict[str, dict[str, Any]] = {"triplet": {}, "smooth_ap": {}, "recall_at_k": {}}


def batch(size: int, dim: int, of_a_class: int = 4) -> tuple[Tensor, Tensor]:
    """Unit vectors in random order of their classes."""
    generator = torch.Generator().manual_seed(0)
    x = nn.functional.normalize(torch.randn(size, dim, generator=generator))
    return x, (torch.arange(size) // of_a_class)[torch.randperm(size, generator=generator)]


def step_of(made: Callable[[Tensor, Tensor], Tensor], size: int, dim: int) -> Step:
    """Forward and backward of a loss over a batch."""
    x, labels = batch(size, dim)

    def step() -> Tensor:
        own = x.clone().requires_grad_()
        value = made(own, labels)
        value.backward()
        return value.detach()

    return step


def ours(name: str, options: dict[str, Any], size: int, dim: int, classes: int | None = None) -> Step:
    """Our step; small ones are made first, at once and in tiles, for what PyTorch loads when it is first used."""
    made = loss(name, num_classes=classes or size // 4, dim=dim, **options)
    step_of(made, 32, dim)()
    with tiles(16, 16):
        step_of(made, 32, dim)()
    return step_of(made, size, dim)


def peers(name: str, arguments: dict[str, Any], size: int, dim: int) -> Step:
    """The peer's step."""
    from pytorch_metric_learning import losses

    made = getattr(losses, name)(**arguments)
    step_of(made, 32, dim)()
    return step_of(made, size, dim)


def proxy_peers(name: str, arguments: dict[str, Any], size: int, dim: int, classes: int) -> Step:
    """The peer's step with class vectors."""
    return peers(name, {**arguments, "num_classes": classes, "embedding_size": dim}, size, dim)


def over_classes(name: str, classes: int, dim: int, size: int, options: dict[str, Any]) -> Step:
    """A step of a loss with class vectors."""
    made = loss(name, num_classes=classes, dim=dim, **options)
    x, labels = batch(size, dim)
    labels = labels * (classes // len(labels))
    loss(name, num_classes=64, dim=dim, **options)(x[:8].clone().requires_grad_(), torch.arange(8)).backward()

    def step() -> nn.Module:
        made(x.clone().requires_grad_(), labels).backward()
        return made

    return step


def bare(x: Tensor, y: Tensor, tile: int = 512) -> Step:
    """The least that a loss of all pairs can do in tiles: product, exponential; product again, two gradient products.

    Where both sides are the same rows, one gradient takes both products.
    """
    starts = range(0, len(x), tile)

    def step() -> tuple[Tensor, Tensor]:
        sums, of_rows = torch.zeros(len(x)), torch.zeros_like(x)
        of_columns = of_rows if y is x else torch.zeros_like(y)
        for i in starts:
            for j in starts:
                sums[i : i + tile] += (x[i : i + tile] @ y[j : j + tile].T).exp_().sum(1)
        for i in starts:
            for j in starts:
                weight = (x[i : i + tile] @ y[j : j + tile].T).div_(sums[i : i + tile, None])
                of_rows[i : i + tile].addmm_(weight, y[j : j + tile])
                of_columns[j : j + tile].addmm_(weight.T, x[i : i + tile])
        return of_rows, of_columns

    return step


def network() -> nn.Module:
    """A small convolutional embedder without batch norm; nearly all of its memory are activations."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=4), nn.ReLU(), nn.Flatten(),
        nn.Linear(16 * 8 * 8, 64),
    )  # fmt: skip


def cached(images: int, chunk: int) -> Step:
    """A step of supervised contrast over many images with the activations of ``chunk`` of them."""
    model, criterion = network(), loss("supcon")
    pictures = torch.rand(images, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(images) // 4
    criterion(model(pictures[:8]), labels[:8]).backward()

    def step() -> nn.Module:
        if chunk:
            criterion(cached_embeddings(model, pictures, chunk=chunk, seeds=(0,)), labels).backward()
        else:
            criterion(model(pictures), labels).backward()
        return model

    return step


def remembered(capacity: int, dim: int, size: int) -> Step:
    """A step with a full cross-batch memory."""
    made = CrossBatchMemory(loss("supcon"), size=capacity, dim=dim)
    x, labels = batch(size, dim)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        made.vectors.normal_(generator=generator)
        made.labels.random_(0, 1000, generator=generator)
        made.seen += capacity
    made.batches += 1

    def step() -> nn.Module:
        for _ in range(2):
            made(x.clone().requires_grad_(), labels).backward()
        return made

    return step
