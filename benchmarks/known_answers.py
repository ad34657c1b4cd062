"""Real small tournaments with a known answer: ``python -m benchmarks.known_answers [--only ROW] [--json FILE]``.

A linear embedding of Omniglot's pixels (100 training classes, 100 test classes, 10 pixels of a side) is trained with
supcon, searched anew in each of five repetitions. ``same``: 40 tournaments of supcon against itself under another name;
a verdict "better" or "worse" is false. ``worse``: 40 tournaments against supcon that wastes all but a few
dimensions; finding it is right. ``effect``: the mean difference of the latter over all repetitions, and the number of
tournaments is in every row. Resumable; half an hour on one core. ``SIMILIS_DATA`` holds omniglot.zip.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import torch
from torch.nn.functional import avg_pool2d

from benchmarks.rounds import arguments, print_table, write_json
from similis.data.open_data import open_data
from similis.run.machine import Machine
from similis.run.network import build_model
from similis.run.parts import images_for
from similis.run.spec import parse_spec
from similis.study.report.judged_table import fair_tables
from similis.study.statistics.significance import TARGETS
from similis.study.statistics.verdicts import pair_verdicts
from similis.study.tournament import run_tournament

CLASSES, SIDE = 100, 10
TOURNAMENTS, REPETITIONS = 40, 5
FOLDER = Path("runs/known-answers")
PLANTED = '''"""supcon that wastes dimensions: all but the first of the embedding are pushed to zero."""

from torch import Tensor

from similis.formula import Cost, Range, register_loss
from similis.losses import supcon


@register_loss(family="pair", geometry="cosine", input="unit", cost=Cost("B^2 D", "B^2"), paper="none", network="none",
               weight="S", space={"temperature": Range(0.02, 1.0, log=True)})
def planted(embeddings: Tensor, labels: Tensor, *, temperature: float = 0.1, kept: int = 16) -> Tensor:
    """The loss, and the squares of the coordinates that are not kept."""
    wasted = embeddings[:, kept:].square().sum(dim=1).mean()
    return supcon(embeddings, labels, temperature=temperature) + 10 * wasted
'''


def write_vectors(path: Path) -> None:
    """Pixels of the first classes of either part as ready vectors."""
    manifest = open_data("omniglot", allow_counts=True)
    model = {"backbone": "small_conv", "weights": None, "image_size": 2 * SIDE, "dim": 8}
    network = build_model(parse_spec({"data": {"source": "omniglot"}, "model": model}), Machine())
    loader = images_for(network, manifest, Machine(), policies=("eval",))
    columns: dict[str, list[Any]] = {"vector": [], "label": [], "split": []}
    for part in ("train", "test"):
        rows = torch.tensor([n for n, name in enumerate(manifest.values("split")) if name == part])
        kept = torch.unique(manifest.labels[rows])[:CLASSES]
        rows = rows[torch.isin(manifest.labels[rows], kept)]
        for batch in loader.ordered(rows, batch_size=1000):
            columns["vector"] += avg_pool2d(batch.images[:, :1], 2).flatten(1).tolist()
            columns["label"] += batch.labels.tolist()
            columns["split"] += [part] * len(batch.labels)
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def make_plan(vectors: Path, contestants: list[Any], seed: int) -> dict[str, Any]:
    """A tournament of two, every repetition searched anew."""
    return {
        "name": f"known-{seed}",
        "terms": {
            "data": {"source": str(vectors), "validation_share": 0.2},
            "model": {"backbone": "identity", "weights": None, "dim": 64, "options": {"features": SIDE * SIDE}},
            "training": {"epochs": 3, "batch_size": 100, "lr": 0.001, "refit": False, "checkpoint_steps": 10_000},
        },
        "contestants": contestants,
        "against": "supcon",
        "sampler": "balanced",
        "search": {"trials": 2, "epochs": 2, "strategy": "random", "pruning": False, "seed": seed},
        "repetitions": REPETITIONS,
        "floors": False,
    }


def measure(kind: str, vectors: Path) -> dict[str, Any]:
    """Verdicts of all tournaments of a kind, by target, and the mean difference."""
    contestants: dict[str, Any] = {
        "same": {"loss": "supcon", "name": "again"},
        "worse": {"loss": f"{FOLDER / 'planted.py'}:planted", "name": "planted", "options": {"kept": 16}},
    }
    counts: dict[str, Counter[str]] = {}
    points = []
    for number in range(TOURNAMENTS):
        plan = make_plan(vectors, [contestants[kind], "supcon"], number)
        folder = run_tournament(plan, FOLDER / f"{kind}-{number}")
        (table,) = fair_tables(folder.plan(), folder.records.all("final"))
        for verdict in pair_verdicts(table.scores, against="supcon"):
            counts.setdefault(verdict.target, Counter())[verdict.verdict] += 1
        points.append(verdict.difference)
        print(kind, number, {target: dict(each) for target, each in counts.items()}, f"{points[-1]:+.2f}", flush=True)
    return {
        "tournaments": TOURNAMENTS,
        "repetitions": REPETITIONS,
        "difference": sum(points) / len(points),
        **{target: dict(each) for target, each in counts.items()},
    }


def table_row(name: str, found: Mapping[str, Any], target: str) -> list[Any]:
    """Counts of the verdicts for one target."""
    said = found[target]
    return [name, target, *(said.get(word, 0) for word in ("better", "worse", "equivalent", "undecided"))]


def main() -> None:
    """Run the tournaments, print how often each verdict was given."""
    asked = arguments(__doc__ or "", ["same", "worse"])
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "planted.py").write_text(PLANTED, encoding="utf-8")
    vectors = FOLDER / "omniglot.parquet"
    if not vectors.exists():
        with tempfile.TemporaryDirectory(dir=FOLDER) as beside:
            write_vectors(Path(beside) / vectors.name)
            (Path(beside) / vectors.name).replace(vectors)
    torch.set_num_threads(1)
    figures = {kind: measure(kind, vectors) for kind in ("same", "worse") if asked.only in (None, kind)}
    rows = [table_row(name, found, target) for name, found in figures.items() for target in TARGETS]
    print_table("verdicts", ["tournaments", "target", "better", "worse", "equivalent", "undecided"], rows)
    write_json(asked.json, "python -m benchmarks.known_answers", figures)


if __name__ == "__main__":
    main()
