"""New classes without training: ``python -m benchmarks.enrolment [--only ROW] [--json FILE]``.

The 98 test classes of CARS196 are unseen by every model here. A gallery holds five photos of each of 88; all other
photos of all 98 are classified by the five nearest, first so, then after five photos of each of the other ten were
enrolled. Answers are "unknown" below the threshold that :meth:`Model.classify` estimates within the gallery, with
balanced errors; ``named`` is the share that is right if a class must be named. Ten draws of the ten classes; intervals
resample classes. Rows: the untouched EfficientNet-lite0, and the runs of
``benchmarks.fine_tuning``, as far as they are there. ``SIMILIS_DATA`` names the folder of photos and weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import similis
from benchmarks.lite_weights import weights
from benchmarks.rounds import arguments, print_table, write_json
from similis.retrieval.intervals import mean_interval

SIZE, SHOTS, NEW, DRAWS = 160, 5, 10, 10
RUNS = Path("runs/fine-tuning")


def models() -> dict[str, Path | None]:
    """Row -> the folder of a run; None for the untouched network."""
    return {"untouched": None, **{path.name: path for path in sorted(RUNS.glob("cars196-*"))}}


def measure(folder: Path | None) -> dict[str, Any]:
    """Shares of right, wrong and unknown answers of one model, for the old and the new classes."""
    if folder is None:
        model = similis.pretrained("tf_efficientnet_lite0", weights=weights(), size=SIZE, device="cpu")
    else:
        model = similis.load(folder, device="cpu")
    data = similis.open_data("cars196", allow_counts=True)
    test = data.select([row for row, part in enumerate(data.parts) if part == "test"])
    vectors, labels = model.encode(test), test.labels
    kinds = {kind: [] for kind in ("old before", "new before", "old after", "new after")}
    for draw in range(DRAWS):
        for kind, found in one_draw(model, vectors, labels, draw).items():
            kinds[kind].append(found)
    figures: dict[str, Any] = {}
    for kind, parts in kinds.items():
        classes = torch.cat([part[0] for part in parts])
        for number, name in enumerate(("right", "unknown", "named"), 1):
            figures[f"{kind} {name}"] = list(mean_interval(torch.cat([part[number] for part in parts]), classes))
    return figures


def one_draw(model: Any, vectors: Any, labels: Any, draw: int) -> dict[str, tuple[Any, Any, Any, Any]]:
    """Kind -> class, whether right, unknown, right if named, of each query, before and after the ten are enrolled."""
    chance = torch.Generator().manual_seed(draw)
    classes = labels.unique()[torch.randperm(98, generator=chance)]
    shown = torch.cat([pick(labels, int(each), chance) for each in classes])
    asked = torch.ones(len(labels), dtype=torch.bool).index_fill_(0, shown, False).nonzero().flatten()
    new = torch.isin(labels, classes[:NEW])
    for entry in list(model.gallery.contents().entries):
        model.remove(entry.id)
    found = {}
    for moment, part in (("before", shown[~new[shown]]), ("after", shown[new[shown]])):
        model.add(vectors[part], labels=[str(x) for x in labels[part].tolist()], ids=[str(x) for x in part.tolist()])
        said, named = (
            torch.tensor([-1 if each.label is None else int(each.label) for each in answers])
            for answers in (model.classify(vectors[asked]), model.classify(vectors[asked], unknown=False))
        )
        for kind, mask in (("old", ~new[asked]), ("new", new[asked])):
            own = labels[asked][mask]
            answers = (said[mask] == own, said[mask] == -1, named[mask] == own)
            found[f"{kind} {moment}"] = (own, *(each.double() for each in answers))
    return found


def pick(labels: Any, own: int, chance: torch.Generator) -> Any:
    """Rows of a few photos of a class."""
    rows = (labels == own).nonzero().flatten()
    return rows[torch.randperm(len(rows), generator=chance)[:SHOTS]]


def in_per_cent(interval: Sequence[float]) -> str:
    """A share with its interval."""
    value, low, high = (100 * part for part in interval)
    return f"{value:.1f} ({low:.1f} to {high:.1f})"


def page_rows(network: str, row: dict[str, Any]) -> list[str]:
    """Lines of results/fine-tuning.md, before and after the new classes are enrolled."""
    return [
        f"| {network} | {moment} | "
        + " | ".join(
            in_per_cent(row[f"{kind} {moment} {share}"])
            for kind in ("old", "new")
            for share in ("right", "unknown", "named")
        )
        + " |"
        for moment in ("before", "after")
    ]


def main() -> None:
    """Measure, print, write."""
    rows = models()
    asked = arguments(__doc__ or "", list(rows))
    found = {name: measure(rows[name]) for name in ([asked.only] if asked.only else rows)}
    columns = ("row", *next(iter(found.values())))
    table = [(name, *map(in_per_cent, row.values())) for name, row in found.items()]
    print_table("per cent of the queries", columns, table)
    write_json(asked.json, "python -m benchmarks.enrolment", found)


if __name__ == "__main__":
    main()
