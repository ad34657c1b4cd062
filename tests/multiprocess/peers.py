"""The same comparison for other libraries: N ranks against one process, value and gradients.

Prints the rows of ``results/distributed.md`` and writes ``results/distributed.json``::

    python -m tests.multiprocess.peers [path of open_clip/loss.py]
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from benchmarks.rounds import write_json
from similis.objective.context import distributed
from similis.registry import losses
from tests.multiprocess.pool import Pool, PoolError
from tests.multiprocess.work import batch, network, objective
from tests.proof import CLASSES, DIM

PML = {
    "ContrastiveLoss": {},
    "TripletMarginLoss": {},
    "NTXentLoss": {},
    "MultiSimilarityLoss": {},
    "ProxyAnchorLoss": {"num_classes": CLASSES, "embedding_size": DIM},
    "ArcFaceLoss": {"num_classes": CLASSES, "embedding_size": DIM},
}
EVEN, UNEVEN = (6, 6), (8, 4)
OURS = ("contrastive", "triplet", "nt_xent", "multi_similarity", "proxy_anchor", "arcface")
CLIP = {
    "as it comes": {},
    "gather_with_grad": {"gather_with_grad": True},
    "gather_with_grad, local_loss": {"gather_with_grad": True, "local_loss": True},
    "local_loss": {"local_loss": True},
}


def pml_loss(name: str) -> nn.Module:
    import pytorch_metric_learning.losses as theirs

    made = getattr(theirs, name)(**PML[name]).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return made


def clip_loss(path: str, options: dict, rank: int, world: int) -> nn.Module:
    spec = importlib.util.spec_from_file_location("open_clip_loss", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ClipLoss(rank=rank, world_size=world, **options)


def measured(communicator, kind: str, name: str, counts: tuple[int, ...], path: str = "") -> list[Tensor]:
    """Value, gradient of the model, gradient of what the loss learns, after DDP's averaging."""
    warnings.simplefilter("ignore")
    inputs, labels, _ = batch(0)
    model, learned = network(0, torch.float64), []
    rank, world = (0, 1) if communicator is None else (communicator.rank, communicator.world)
    if communicator is not None:
        inputs, labels = inputs.split(counts)[rank], labels.split(counts)[rank]
    net = model if world == 1 else DistributedDataParallel(model)
    if kind == "similis":
        made = objective(name, next(f for f in losses.get(name).forms if f in ("default", "cosine")), 0, torch.float64)
        learned = list(made.parameters())
        with distributed(communicator):
            value = made(net(inputs), labels)
    elif kind == "clip":
        scale = nn.Parameter(torch.tensor(3.0, dtype=torch.float64))
        made, learned = clip_loss(path, CLIP[name], rank, world), [scale]
        other = torch.randn(12, DIM, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
        texts = other if communicator is None else other.split(counts)[rank]
        value = made(functional.normalize(net(inputs), dim=1), functional.normalize(texts, dim=1), scale)
    else:
        from pytorch_metric_learning.utils.distributed import DistributedLossWrapper

        made = pml_loss(name)
        learned = list(made.parameters())
        if world > 1:
            made = made if kind == "pml local" else DistributedLossWrapper(made, efficient=kind == "pml efficient")
        value = made(net(inputs), labels)
    value.backward()
    gradients = [p.grad for p in learned]
    if communicator is not None and gradients:
        communicator.average(gradients)
    joined_gradient = torch.cat([g.flatten() for g in gradients]) if gradients else torch.zeros(0)
    return [value.detach(), torch.cat([p.grad.flatten() for p in model.parameters()]), joined_gradient]


def compare_kinds(ranks: Pool, kind: str, name: str, counts: tuple[int, ...], path: str = "") -> list[str]:
    """Cells of the table: value, model and learned gradients relative to one process."""
    value, model, learned = measured(None, kind, name, (12,), path)
    try:
        found = ranks.call(measured, kind, name, counts, path)
    except PoolError:
        return ["fails", "", ""]
    mean = sum(float(v) for v, _, _ in found) / len(found)
    return [
        ratio(torch.tensor(mean, dtype=torch.float64), value),
        *(ratio(a, b) for a, b in zip(found[0][1:], (model, learned), strict=True)),
    ]


def ratio(a: Tensor, b: Tensor) -> str:
    """``exact``, or the factor, with the cosine where the direction differs too."""
    if not b.numel():
        return "-"
    if float((a - b).abs().max()) <= 1e-10 * max(1.0, float(b.abs().max())):
        return "exact"
    a, b = a.flatten().double(), b.flatten().double()
    factor = f"{float(a.norm() / b.norm()):.3f} x"
    cosine = float(a @ b / (a.norm() * b.norm()))
    return factor if cosine > 1 - 1e-9 else f"{factor}, cosine {cosine:.3f}"


def table(path: str) -> list[tuple[str, ...]]:
    """All rows; a pool that a peer breaks is started anew."""
    rows = []
    kinds = [("similis", n) for n in OURS] + [("pml", n) for n in PML]
    kinds += [("pml efficient", n) for n in list(PML)[:4]] + [("pml local", n) for n in PML]
    kinds += [("clip", n) for n in CLIP] if path else []
    ranks = Pool(2, timeout=20).start()
    broken: dict[str, list[str]] = {}  # kinds that cannot gather uneven rows: once seen, not tried again
    for kind, name in kinds:
        for counts in (EVEN, UNEVEN):
            cells = broken.get(kind) if counts is UNEVEN else None
            if cells is None:
                cells = compare_kinds(ranks, kind, name, counts, path)
                if cells[0].startswith("fails"):
                    broken[kind] = cells
                    ranks = Pool(2, timeout=20).start()
            rows.append((kind, name, " + ".join(map(str, counts)), *cells))
    ranks.close()
    return rows


if __name__ == "__main__":
    found = table(sys.argv[1] if len(sys.argv) > 1 else "")
    print(*("| " + " | ".join(row) + " |" for row in found), sep="\n")
    write_json(Path("results/distributed.json"), "python -m tests.multiprocess.peers", found)
