"""Tables and figures of the studies under ``results`` from their committed records; nothing is trained.

``python -m benchmarks.studies [--only STUDY]`` prints the tables as the pages show them (a test compares the two) and
writes the figures. The runs: ``similis tournament run results/STUDY/plan.yaml``.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks import study_figures as draw
from benchmarks.floors import ROWS as FLOORS
from benchmarks.study_cells import (
    RESULTS,
    Key,
    Record,
    Table,
    cells,
    compared,
    difference,
    each,
    floor,
    floors,
    intervals,
    judge_cells,
    scores_of,
    shown,
    tau,
)
from similis.study.statistics.fair_table import own_intervals

Study = tuple[list[Table], Callable[[], None]]
PROXY = ("soft_triple", "proxy_anchor", "normface", "proxy_nca", "proxy_nca_pp", "proxy_gml", "proxy_repulsion")
COMPARED = ("difference, points", "significant", "smallest detectable")
AGREEMENT = ("orders", "Kendall's tau", "p")
NONE = "no training"


def birds(place: Path) -> Study:
    """Nine losses on bird photos, and the same network without training."""
    found = cells(place, "contestant")
    scores = scores_of(found)
    near, far = (100 * part for part in own_intervals(scores))
    precision = {key: np.mean([100 * r["test"]["map@r"] for r in rows]) for key, rows in found.items()}
    rows = [
        (f"`{key[0]}`", f"{100 * scores.means[n]:.1f}", f"± {near[n]:.1f}", f"± {far[n]:.1f}", f"{precision[key]:.1f}")
        for n, key in sorted(enumerate(found), key=lambda item: -scores.means[item[0]])
    ]
    rows += [(f"{NONE}: {what}", floor(name), "", "", "") for what, name in (
        ("random head, 96 pixels", "cub-96 untrained"), ("pooled features, 96 pixels", "cub-96 frozen"),
        ("pooled features, 224 pixels", "cub-224 frozen"))]  # fmt: skip
    columns = ["loss", "R@1 %", "95 % interval for these test classes", "for unseen classes", "MAP@R %"]
    return [Table(columns, rows)], lambda: None


def photos(_: Path) -> Study:
    """The networks of the studies without training."""
    rows = []
    for name, row in FLOORS.items():
        found = floors(name)
        small = row.backbone == "small_conv"
        network = f"small_conv, {row.options['width']}" if small else "EfficientNet-lite0"
        kind = "random weights" if small else "random head" if row.dim else f"features, {row.pooling}"
        crop = f"{row.size}" + (f" from {row.resize}" if row.resize else "")
        rows.append(
            (row.data, crop, network, kind, f"{np.mean(found):.2f}", ", ".join(f"{value:.2f}" for value in found))
        )
    columns = ["data", "pixels, from a short side of", "network", "without training", "R@1 %", "each seed"]
    return [Table(columns, rows)], lambda: None


def network(place: Path) -> Study:
    """Three losses on two widths of a network, and on one network at two resolutions."""
    labels = {"slim": "16 to 128 channels", "narrow": "32 to 256 channels"}
    width = {(name, labels[net]): rows for (name, net), rows in cells(place, "contestant", "arena").items()}
    names = {name for name, _ in width}
    folders = {"96 pixels": RESULTS / "cub-tournament", "128 pixels": place / "cub"}
    pixels = {(name, size): rows for size, folder in folders.items()
              for (name,), rows in cells(folder, "contestant").items() if name in names}  # fmt: skip
    bare = {label: f"omniglot-{net} untrained" for net, label in labels.items()}
    bare |= {"96 pixels": "cub-96 untrained", "128 pixels": "cub-128 untrained"}
    found = [against(width, "Omniglot", bare), against(pixels, "CUB200-2011", bare)]
    pairs = [row for (_, own), _ in found for row in own.rows]
    tables = [*(main for (main, _), _ in found), Table(("where", "losses", *COMPARED), pairs)]
    panels = {"Omniglot, two widths": found[0][1], "CUB200-2011, two resolutions": found[1][1]}
    figure = partial(draw.lines, panels, place / "figure.png", "network, or resolution of its input")
    return tables, figure


def against(
    found: Mapping[Key, Sequence[Record]], title: str, bare: Mapping[str, str]
) -> tuple[tuple[Table, Table], dict[str, dict[str, tuple[float, float]]]]:
    """Losses against two conditions, and losses against each other under one; the values of the cells."""
    value, judged = intervals(found), judge_cells(found)
    names, nets = (list(dict.fromkeys(key[i] for key in found)) for i in (0, 1))
    nets.sort(key=lambda net: value[names[0], net][0])
    rows = [(name, *(shown(value[name, net]) for net in nets),
             *compared(judged, (name, nets[1]), (name, nets[0]), value)) for name in names]  # fmt: skip
    more = np.mean(floors(bare[nets[1]])) - np.mean(floors(bare[nets[0]]))
    rows.append(("without training", *(floor(bare[net]) for net in nets), f"{more:+.1f}", "", ""))
    pairs = [(f"{title}, {net}", f"{a}, {b}", *compared(judged, (a, net), (b, net), value))
             for net in nets for a, b in combinations(names, 2)]  # fmt: skip
    tables = Table([title, *nets, *COMPARED], rows), Table(["where", "losses", *COMPARED], pairs)
    return tables, {name: {net: value[name, net] for net in nets} for name in names}


def orders(place: Path) -> Study:
    """The order of eight losses on three data sets and with two samplers."""
    emoji = cells(place, "arena", "contestant")
    names = sorted({name for _, name in emoji})
    means: dict[str, dict[str, float]] = {}
    for title in ("Omniglot", "CUB"):
        value = intervals(cells(RESULTS / f"{title.lower()}-tournament", "contestant"))
        means[title] = {name: value[(name,)][0] for name in names}
    value, judged = intervals(emoji), judge_cells(emoji)
    for arena in ("balanced", "random"):
        means[f"emoji, {arena}"] = {name: value[arena, name][0] for name in names}
    titles = ["Omniglot", "emoji, balanced", "emoji, random", "CUB"]
    names.sort(key=lambda n: -means["CUB"][n])
    rows = [(name, *(f"{means[t][name]:.1f}" for t in titles),
             *compared(judged, ("balanced", name), ("random", name), value)) for name in names]  # fmt: skip
    bare = ("omniglot-slim", "emoji-slim", "emoji-slim", "cub-96")
    rows.append(("untrained network", *(floor(f"{name} untrained") for name in bare), "", "", ""))
    agreement = [agreeing(f"{a}; {b}", *([means[t][n] for n in names] for t in (a, b)))
                 for a, b in combinations(titles, 2)]  # fmt: skip
    columns = ["loss", *titles, "emoji: balanced minus random, points", *COMPARED[1:]]
    tables = [Table(columns, rows), Table(AGREEMENT, agreement)]
    best = {t: sorted(names, key=lambda n: -means[t][n]) for t in titles}
    return tables, partial(draw.ranks, best, place / "figure.png")


def agreeing(title: str, one: Sequence[float], other: Sequence[float]) -> tuple[str, str, str]:
    """How far two orders agree."""
    found, p = tau(one, other)
    return title, f"{found:.2f}", f"{p:.2f}"


def thesis_loss(place: Path) -> Study:
    """Proxy repulsion in three forms against ProxyAnchor, and both in the two searches there are."""
    found = cells(place, "contestant")
    value, judged = intervals(found), judge_cells(found)
    rows = [(name, shown(value[(name,)]), *(compared(judged, (name,), ("proxy_anchor",), value) if n else ("", "", "")))
            for n, (name,) in enumerate(sorted(found, key=lambda key: -value[key][0]))]  # fmt: skip
    rows.append(("untrained network", floor("omniglot-slim untrained"), "", "", ""))
    omniglot = cells(RESULTS / "omniglot-tournament", "contestant")
    other = intervals(omniglot)
    searches = [
        ("three trials", shown(value[("proxy_anchor",)]), shown(value[("samples",)]),
         *compared(judged, ("samples",), ("proxy_anchor",), value)),
        ("ten trials (the Omniglot tournament)", shown(other[("proxy_anchor",)]),
         shown(other[("proxy_repulsion",)]),
         *compared(judge_cells(omniglot), ("proxy_repulsion",), ("proxy_anchor",), other)),
    ]  # fmt: skip
    extras = ("", "+memory1000", "+mined_neighbours")
    named = {form: {extra or "alone": value[(form + extra,)] for extra in extras}
             for form in ("proxies", "samples", "hybrid")}  # fmt: skip
    named["proxy_anchor"] = {"alone": value[("proxy_anchor",)]}
    tables = [Table(["contestant", "R@1 %", *COMPARED], rows),
              Table(["search", "proxy_anchor", "proxy_repulsion, `samples`", *COMPARED], searches)]  # fmt: skip
    return tables, partial(draw.lines, {"": named}, place / "figure.png", "extras")


def extras(place: Path) -> Study:
    """What language, mining, memory and direction add to a loss."""
    found = cells(place, "contestant")
    value, judged = intervals(found), judge_cells(found)
    labels = {
        "proxy_anchor+language": "proxy_anchor, language guidance (weight 7.5)",
        "proxy_anchor+mined_neighbours": "proxy_anchor, offline mining (`neighbours`, each epoch)",
        "proxy_anchor+memory1000": "proxy_anchor, memory of 1,000 rows from step 50 of 138",
        "ms_direction": "multi_similarity, direction (0.3)",
    }
    alone = {name: label.partition(",")[0] for name, label in labels.items()}
    order = sorted(found, key=lambda key: (alone.get(key[0], key[0]) != "proxy_anchor", -value[key][0]))
    rows = [(labels.get(name, name), shown(value[(name,)]),
             *(compared(judged, (name,), (alone[name],), value) if name in alone else ("", "", "")))
            for (name,) in order]  # fmt: skip
    rows.append((f"{NONE}, random head", floor("cub-96 untrained"), "", "", ""))
    short = {name: re.split(r" \(| of ", label)[0] for name, label in labels.items()}
    gained = {short[name]: difference(judged, (name,), (base,), value) for name, base in alone.items()}
    axis = "points of R@1 gained (two seeds: no interval)"
    return [Table(["contestant", "R@1 %", *COMPARED], rows)], partial(
        draw.differences, gained, place / "figure.png", axis
    )


def cars(place: Path) -> Study:
    """Six losses on birds and on cars."""
    folders = {"birds": RESULTS / "cub-tournament", "cars": place}
    found = {title: cells(folder, "contestant") for title, folder in folders.items()}
    value = {title: intervals(own) for title, own in found.items()}
    names = sorted((name for (name,) in found["cars"]), key=lambda n: -value["cars"][(n,)][0])
    rows = [(n, *(shown(value[t][(n,)]) for t in folders),
             ", ".join(f"{100 * r:.1f}" for r in each(found["cars"][(n,)]))) for n in names]  # fmt: skip
    seeds = ", ".join(f"{value:.1f}" for value in floors("cars-96 untrained"))
    rows.append((f"{NONE}, random head", floor("cub-96 untrained"), floor("cars-96 untrained"), seeds))
    rows.append((f"{NONE}, pooled features", floor("cub-96 frozen"), floor("cars-96 frozen"), ""))
    agreement = agreeing("birds; cars", *([value[t][(n,)][0] for n in names] for t in folders))
    tables = [Table(["loss", "birds", "cars", "cars, each seed"], rows), Table(AGREEMENT, [agreement])]
    lines = {"": {n: {t: value[t][(n,)] for t in folders} for n in names}}
    return tables, partial(draw.lines, lines, place / "figure.png", "test data")


STUDIES: dict[str, Callable[[Path], Study]] = {
    "cub-tournament": birds, "cars-tournament": cars, "cub-extras": extras, "small-and-large": orders,
    "network": network, "thesis-loss": thesis_loss, "photos": photos,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=STUDIES)
    only = parser.parse_args(arguments).only
    for name, study in STUDIES.items():
        if only in (None, name):
            tables, figure = study(RESULTS / name)
            for table in tables:
                print("\n".join([f"\n{name}", *table.lines()]))
            figure()


if __name__ == "__main__":
    main()
