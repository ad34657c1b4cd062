"""Search and evaluation against the bare engines: ``python -m benchmarks.retrieval [--only ROW] [--size N] ...``.

``evaluate``: Recall@1/10/100/1000, R-precision and MAP@R of ``--size`` x 512 vectors in classes of five, against the
bare tile program (product and top-1,000) and our own search. Peak memory beyond the vectors in a fresh process.

``peer``: Recall@1, R-precision and MAP@R by pytorch-metric-learning with its bounded setting (``k="max_bin_count"``)
and by us, with peak memory.

``scale``: ``--queries`` queries in a gallery of ``--large`` x 128: the exponent of time in N from a quarter of it,
memory beyond the vectors, and a class of 5,000 against classes of ten.

``kinds``: every kind of index on ``--vectors FILE`` (or synthetic ones): bytes, build time, recall@10, queries a
second, and the ratio to the same faiss index called directly. Then ``--targets``: which kind meets each.

Contestants take turns in one process, see ``benchmarks.rounds``. Targets: 1.10 of bare.
"""

from __future__ import annotations

import argparse
import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import similis
from benchmarks.rounds import alternate, arguments, measure_rows, median, median_ratio, peak_memory
from similis.model.vector_file import read_vectors
from similis.retrieval.index_build import build_codes
from similis.retrieval.index_choice import K, Target, choose_codes, draw_trial
from similis.retrieval.index_kinds import KINDS, search_parameters
from similis.retrieval.search import search
from similis.retrieval.similarity import TILE

KS = (1, 10, 100, 1000)
TARGETS = ((0.98, 16), (0.99, 4), (0.90, 16), (0.98, 8), (0.999, 2), (1.0, 1))  # recall, share of the float32 bytes


def clustered(count: int, dim: int, size: int = 5, noise: float = 1.0) -> tuple[Tensor, Tensor]:
    """Unit vectors in classes of that size, and their labels."""
    chance = torch.Generator().manual_seed(0)
    labels = torch.arange(count) // size
    centres = torch.randn(int(labels[-1]) + 1, dim, generator=chance)
    x = centres[labels] + noise * torch.randn(count, dim, generator=chance)
    return torch.nn.functional.normalize(x), labels


def bare_search(x: Tensor, k: int) -> None:
    """The tile program: a product and its largest values, nothing else."""
    for rows in torch.split(x, max(1, TILE // len(x))):
        (rows @ x.T).topk(k)


def evaluate_all(x: Tensor, labels: Tensor) -> Any:
    """Ours."""
    return similis.evaluate(x, labels, ks=KS)


def evaluate_memory(count: int) -> Callable[[], Any]:
    """For a fresh process."""
    x, labels = clustered(count, 512)
    torch.mm(x[:64], x[:64].T)
    return lambda: evaluate_all(x, labels)


def peer(x: Tensor, labels: Tensor) -> Callable[[], Any]:
    """pytorch-metric-learning, bounded, with its own search through faiss."""
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    wanted = ("precision_at_1", "r_precision", "mean_average_precision_at_r")
    return lambda: AccuracyCalculator(include=wanted, k="max_bin_count").get_accuracy(x, labels)


def evaluate_row(given: argparse.Namespace) -> dict[str, Any]:
    """Ours, our search alone, the tile program and the peer in turns."""
    x, labels = clustered(given.size, 512)
    ids = torch.arange(len(x))
    seconds = alternate({
        "ours": lambda: evaluate_all(x, labels),
        "search": lambda: search(x, x, KS[-1], ids=(ids, ids)),
        "bare": lambda: bare_search(x, KS[-1]),
    }, given.rounds)  # fmt: skip
    ratios = {f"ratio to {name}": median_ratio(seconds, "ours", name) for name in ("bare", "search")}
    extra = peak_memory("benchmarks.retrieval:evaluate_memory", given.size) / 1e6
    return {"rows": given.size, "ours s": median(seconds["ours"]), **ratios, "peak MB": extra}


def peer_row(given: argparse.Namespace) -> dict[str, Any]:
    """The peer's three metrics by both, in classes of two and more, 5.3 on average as in SOP."""
    chance = torch.Generator().manual_seed(2)
    classes = round(given.size / 5.3466)
    drawn = torch.randint(0, classes, (given.size - 2 * classes,), generator=chance)
    labels = torch.cat([torch.arange(classes).repeat(2), drawn])
    x = clustered(given.size, 512, given.size)[0] + torch.randn(classes, 512, generator=chance)[labels]
    x = torch.nn.functional.normalize(x)
    seconds = alternate({
        "ours": lambda: similis.evaluate(x, labels, ks=(1,)), "peer": peer(x, labels),
    }, given.rounds, warm=0)  # fmt: skip
    peaks = {
        f"{name} MB": peak_memory(f"benchmarks.retrieval:{name}_memory", given.size) / 1e6 for name in ("ours", "peer")
    }
    spent = {f"{name} s": median(each) for name, each in seconds.items()}
    ratio = median_ratio(seconds, "ours", "peer")
    return {"rows": given.size, "classes": classes, **spent, "ratio to peer": ratio, **peaks}


def ours_memory(count: int) -> Callable[[], Any]:
    """Ours with the peer's metrics, for a fresh process."""
    x, labels = clustered(count, 512)
    return lambda: similis.evaluate(x, labels, ks=(1,))


def peer_memory(count: int) -> Callable[[], Any]:
    """The peer, for a fresh process."""
    return peer(*clustered(count, 512))


def scale_memory(count: int, queries: int) -> Callable[[], Any]:
    """For a fresh process."""
    x, labels = clustered(count, 128)
    return lambda: ask(x, labels, queries)


def ask(x: Tensor, labels: Tensor, queries: int) -> Any:
    """The first queries of a shuffled set, in all of it."""
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))[:queries]
    return similis.evaluate(x, labels, ks=(1, 10), queries=rows)


def scale_row(given: argparse.Namespace) -> dict[str, Any]:
    """Time in N and in class sizes, memory."""
    x = clustered(given.large, 128)[0]
    part = given.large // 4
    uniform = torch.arange(len(x)) // 10
    skewed = uniform.clone()
    skewed[:5000] = 0
    seconds = alternate({
        "whole": lambda: ask(x, uniform, given.queries),
        "part": lambda: ask(x[:part], uniform[:part], given.queries),
        "skewed": lambda: ask(x, skewed, given.queries),
    }, given.rounds)  # fmt: skip
    exponent = math.log(median_ratio(seconds, "whole", "part")) / math.log(4)
    extra = peak_memory("benchmarks.retrieval:scale_memory", given.large, given.queries) / 1e6
    skew = median_ratio(seconds, "skewed", "whole")
    return {"rows": given.large, "queries": given.queries, "whole s": median(seconds["whole"]), "exponent": exponent,
            "skewed ratio": skew, "peak MB": extra}  # fmt: skip


def kinds_row(given: argparse.Namespace) -> dict[str, Any]:
    """Kinds and targets on one file of vectors."""
    read = torch.cat([each.vectors for each in read_vectors(given.vectors)]) if given.vectors else None
    x = clustered(given.size, 128, 50, 0.7)[0] if read is None else read
    asked, stored = min(1000, len(x) // 10), np.ascontiguousarray(torch.nn.functional.normalize(x).numpy())
    trial = draw_trial(stored, asked, Target(0.98))
    faiss, rows = importlib.import_module("faiss"), {}
    for kind in KINDS:
        found = trial.attempt(kind, build_codes)
        if found is None:
            continue
        codes, figures = found
        params = codes and faiss.IndexRefineSearchParameters(
            k_factor=KINDS[kind].candidates or figures.effort,
            base_index_params=search_parameters(kind, figures.effort, None),
        )
        bare = faiss.IndexFlatIP(x.shape[1]) if codes is None else faiss.IndexRefineFlat(codes, faiss.swig_ptr(stored))
        if codes is None:
            bare.add(stored)
        seconds = alternate({
            "ours": lambda codes=codes, kind=kind, figures=figures: trial.find(codes, kind, figures.effort),
            "bare": lambda bare=bare, params=params: bare.search(trial.queries, K + 1, params=params),
        }, given.rounds)  # fmt: skip
        rows[kind] = {**figures._asdict(), "of float32": figures.bytes / (4 * x.shape[1]),
                      "ratio to faiss": median_ratio(seconds, "ours", "bare")}  # fmt: skip
    for recall, share in TARGETS[: given.targets]:
        chosen = choose_codes(stored, target=Target(recall, 4 * x.shape[1] * len(x) // share), queries=asked)
        words = chosen.best.kind if chosen.met else f"none; nearest {chosen.best.kind}"
        rows[f"recall {recall:g} in 1/{share}"] = {"kind": words, "recall": chosen.best.recall}
    return rows


def page_rows(data: str, rows: dict[str, Any]) -> list[str]:
    """Lines of the page about the kinds, and about the targets, on one set of vectors."""
    lines = []
    for name, row in rows.items():
        if "ratio to faiss" in row:
            cells = [f"1/{1 / row['of float32']:.1f}", f"{row['build_seconds']:.1f}", f"{row['recall']:.3f}"]
            cells += [f"{row['queries_per_second']:,.0f}", f"{row['ratio to faiss']:.2f}"]
            lines.append(f"| {data} | `{name}` | {' | '.join(cells)} |")
        else:
            lines.append(f"| {data} | {name} | {row['kind']} | {row['recall']:.3f} |")
    return lines


ROWS = {"evaluate": evaluate_row, "peer": peer_row, "scale": scale_row, "kinds": kinds_row}
MORE: dict[str, dict[str, Any]] = {
    "--size": {"type": int, "default": 10_000, "help": "rows of evaluate and of synthetic kinds; SOP has 60,502"},
    "--large": {"type": int, "default": 1_000_000, "help": "gallery of scale"},
    "--queries": {"type": int, "default": 10_000, "help": "of scale"},
    "--targets": {"type": int, "default": len(TARGETS), "help": "how many of kinds' targets"},
    "--vectors": {"type": Path, "help": "file for kinds"},
}


def main() -> None:
    """Measure the rows and write them."""
    given = arguments(__doc__ or "", list(ROWS), MORE)
    measure_rows("retrieval", given, ROWS, lambda name: ROWS[name](given))


if __name__ == "__main__":
    main()
