"""Tables and figures of the studies under ``docs/results`` from their committed records; nothing is trained.

``python -m benchmarks.studies [--only STUDY]``. The runs: ``similis tournament run docs/results/STUDY/plan.yaml``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks import study_figures as draw
from benchmarks.rounds import print_table
from benchmarks.study_cells import (
    Key,
    Record,
    cells,
    difference,
    each,
    intervals,
    over_seeds,
    scores_of,
    shown,
    tau,
    verdict,
)
from similis.study.statistics.verdicts import pair_verdicts

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PROXY = ("soft_triple", "proxy_anchor", "normface", "proxy_nca", "proxy_nca_pp", "proxy_gml", "proxy_repulsion")


def wrong_labels(place: Path) -> None:
    """Who survives wrong labels."""
    shares = {"none": "0 %", "ten": "10 %", "thirty": "30 %"}
    found = cells(place / "records", "contestant", "arena")
    value, judged = intervals(found), pair_verdicts(scores_of(found))
    names = list(dict.fromkeys(name for name, _ in found))
    rows = [
        (name, "proxy" if name in PROXY else "pair", *(shown(value[name, arena]) for arena in shares),
         f"{value[name, 'thirty'][0] - value[name, 'none'][0]:+.1f}", verdict(judged, (name, "thirty"), (name, "none")))
        for name in sorted(names, key=lambda n: -value[n, "thirty"][0])
    ]  # fmt: skip
    print_table("Wrong labels", ["loss", "kind", *shares.values(), "30 % against none", "verdict"], rows)
    families = {kind: [n for n in names if (n in PROXY) == (kind == "proxy")] for kind in ("pair", "proxy")}
    lost = {
        kind: np.mean([each(found[n, "none"]) - each(found[n, "thirty"]) for n in members], axis=0)
        for kind, members in families.items()
    }
    losses = [(f"mean of the {kind} losses", shown(over_seeds(points))) for kind, points in lost.items()]
    losses.append(("pair losses lose more by", shown(over_seeds(lost["pair"] - lost["proxy"]))))
    print_table("Points lost at 30 %, with the interval over seeds", ["", "points"], losses)
    named = {name: {label: value[name, arena] for arena, label in shares.items()} for name in names}
    draw.lines({"": named}, place / "figure.png", "wrong training labels", [n for n in names if n in PROXY])


def dimensions(place: Path) -> None:
    """How many dimensions, and whether one training serves all."""
    sizes = (64, 128, 512, 1024)
    found = cells(place / "records", "contestant", "arena")
    names = list(dict.fromkeys(name for name, _ in found if "nested" not in name))
    panels: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    rows = []
    for name in names:
        nested = next(key for key in found if key[0].startswith(f"{name}+nested"))
        apart = {str(d): over_seeds(each(found[name, f"d{d}"])) for d in sizes}
        both = [{str(d): over_seeds(r["test"][f"recall@1 of {d}"] for r in found[key]) for d in sizes}
                for key in (nested, (name, "d1024"))]  # fmt: skip
        kinds = {"trained for each size": apart, "one nested training": both[0], "1,024 cut": both[1]}
        panels[name] = kinds
        rows += [(name, kind, *(shown(line[str(d)]) for d in sizes)) for kind, line in kinds.items()]
    print_table("Dimensions", ["loss", "training", *map(str, sizes)], rows)
    draw.lines(panels, place / "figure.png", "dimensions")


def network(place: Path) -> None:
    """Whether the loss or the network changes more."""
    width = cells(place / "records", "contestant", "arena")
    names = {name for name, _ in width}
    folders = {"96 pixels": RESULTS / "cub-tournament" / "records", "128 pixels": place / "records-cub"}
    pixels = {
        (name, size): rows
        for size, folder in folders.items()
        for (name,), rows in cells(folder, "contestant").items()
        if name in names
    }
    panels = {"Omniglot, from scratch": against_network(width), "CUB200-2011, pretrained": against_network(pixels)}
    draw.lines(panels, place / "figure.png", "network")


def against_network(found: Mapping[Key, Sequence[Record]]) -> dict[str, dict[str, tuple[float, float]]]:
    """Tables of losses against networks; the values of the cells by loss and network."""
    value, judged = intervals(found), pair_verdicts(scores_of(found))
    names, nets = (list(dict.fromkeys(key[i] for key in found)) for i in (0, 1))
    nets.sort(key=lambda net: value[names[0], net][0])
    rows = [
        (name, *(shown(value[name, net]) for net in nets), verdict(judged, (name, nets[-1]), (name, nets[0])))
        for name in names
    ]
    print_table("Loss or network", ["loss", *nets, "network"], rows)
    pairs = [(net, a, b, verdict(judged, (a, net), (b, net))) for net in nets for a, b in combinations(names, 2)]
    print_table("Losses on one network", ["network", "loss", "against", "verdict"], pairs)
    return {name: {net: value[name, net] for net in nets} for name in names}


def selection(place: Path) -> None:
    """How much selecting on test flatters, and which share of classes predicts the order on test."""
    budgets = {"three trials": ("test", "validation"), "ten trials": ("test-ten", "validation-ten")}
    kinds = [kind for pair in budgets.values() for kind in pair] + ["folds"]
    found = {(name, kind): rows for kind in kinds
             for (name,), rows in cells(place / "records" / kind, "contestant").items()}  # fmt: skip
    units = {key: each(rows, "fold" if key[1] == "folds" else "seed") for key, rows in found.items()}
    names = sorted({name for name, _ in found}, key=lambda n: -units[n, "validation"].mean())
    listed = [(n, *(shown(over_seeds(units[n, kind])) for kind in kinds)) for n in names]
    print_table("Test R@1 %, settings and epoch selected how", ["loss", *kinds], listed)
    gains = {}
    for budget, (tested, validated) in budgets.items():
        gain = {n: units[n, tested] - units[n, validated] for n in names}
        both = [[units[n, kind].mean() for n in names] for kind in (tested, validated)]
        rows = [(n, shown(over_seeds(gain[n]))) for n in names]
        rows.append(("mean of the losses, interval over them", shown(over_seeds([gain[n].mean() for n in names]))))
        rows.append(("Kendall's tau of the two orders", f"{tau(*both):.2f}"))
        print_table(f"Selected on test over selected on validation, {budget}", ["loss", "points"], rows)
        gains[budget] = {n: (100 * float(gain[n].mean()), 0.0) for n in names}
    taus = validation_shares(cells(place / "records" / "shares", "arena", "contestant"))
    flattered = {n: {budget: gains[budget][n] for budget in budgets} for n in names}
    axes = [("budget of the search", "R@1 gained by selecting on test, points"),
            ("training classes kept for validation", "Kendall's tau of validation and test orders")]  # fmt: skip
    draw.two(flattered, taus, place / "figure.png", axes)


def validation_shares(found: Mapping[Key, Sequence[Record]]) -> dict[str, dict[str, tuple[float, float]]]:
    """How well the order on validation classes predicts the order on test, for each share of classes."""
    table, lines = [], dict[str, dict[str, tuple[float, float]]]()
    for arena in sorted({arena for arena, _ in found}):
        rows = [own for (a, _), own in found.items() if a == arena]
        seen, asked = (np.stack([each(own, split=split) for own in rows]) for split in ("validation", "test"))
        taus = {"means of the seeds": tau(seen.mean(1), asked.mean(1))}
        taus |= {f"seed {s}": tau(seen[:, s], asked[:, s]) for s in range(seen.shape[1])}
        share = f"{int(arena[-2:])} %"
        table.append((share, *(f"{100 * part.mean():.1f}" for part in (seen, asked)), *taus.values()))
        for name, agreement in taus.items():
            lines.setdefault(name, {})[share] = (agreement, 0.0)
    print_table("Shares for validation", ["share", "validation R@1 %", "test R@1 %", *lines], table)
    return lines


def orders(place: Path) -> None:
    """Whether the order on small data holds on photos."""
    emoji = cells(place / "records", "arena", "contestant")
    nine = sorted({name for _, name in emoji})
    known = {"Omniglot": RESULTS / "omniglot-tournament", "CUB": RESULTS / "cub-tournament"}
    means: dict[str, dict[str, float]] = {}
    for title, folder in known.items():
        value = intervals(cells(folder / "records", "contestant"))
        means[title] = {name: value[(name,)][0] for name in nine}
    for arena in ("balanced", "random"):
        value = intervals({k: v for k, v in emoji.items() if k[0] == arena})
        means[f"emoji, {arena}"] = {name: value[arena, name][0] for name in nine}
    titles = ["Omniglot", "emoji, balanced", "emoji, random", "CUB"]
    rows = [(name, *(means[t][name] for t in titles)) for name in sorted(nine, key=lambda n: -means["CUB"][n])]
    print_table("R@1 in per cent", ["loss", *titles], rows)
    listed = {title: [means[title][n] for n in nine] for title in titles}
    table = [(a, b, tau(listed[a], listed[b])) for a, b in combinations(titles, 2)]
    print_table("Agreement of two orders", ["data", "data", "Kendall's tau"], table)
    draw.ranks({t: sorted(nine, key=lambda n: -means[t][n]) for t in titles}, place / "figure.png")


def thesis_loss(place: Path) -> None:
    """Whether the thesis' own loss holds up."""
    found = cells(place / "records", "contestant")
    value, judged = intervals(found), pair_verdicts(scores_of(found))
    rows = [
        (name, shown(value[(name,)]), "" if name == "proxy_anchor" else verdict(judged, (name,), ("proxy_anchor",)))
        for (name,) in sorted(found, key=lambda key: -value[key][0])
    ]
    print_table("The thesis' loss", ["contestant", "R@1 %", "against proxy_anchor"], rows)
    forms = ("proxies", "samples", "hybrid")
    named = {form: {extra or "alone": value[(form + extra,)] for extra in ("", "+memory1000", "+mined_neighbours")}
             for form in forms}  # fmt: skip
    named["proxy_anchor"] = {"alone": value[("proxy_anchor",)]}
    draw.lines({"": named}, place / "figure.png", "extras")


def extras(place: Path) -> None:
    """What language, mining, memory and direction add to a loss."""
    found = cells(place / "records", "contestant")
    value, judged = intervals(found), pair_verdicts(scores_of(found))
    pairs = {
        "proxy_anchor, language guidance": ("proxy_anchor+language", "proxy_anchor"),
        "proxy_anchor, offline mining": ("proxy_anchor+mined_neighbours", "proxy_anchor"),
        "proxy_anchor, memory": ("proxy_anchor+memory1000", "proxy_anchor"),
        "multi_similarity, direction": ("ms_direction", "multi_similarity"),
    }
    alone = dict(pairs.values())
    rows = [
        (name, shown(value[(name,)]), verdict(judged, (name,), (alone[name],)) if name in alone else "")
        for (name,) in sorted(found, key=lambda key: (alone.get(key[0], key[0]) != "proxy_anchor", -value[key][0]))
    ]
    print_table("Extras", ["contestant", "R@1 %", "against the loss alone"], rows)
    gained = {label: difference(judged, (name,), (base,))[0] for label, (name, base) in pairs.items()}
    draw.differences(
        gained, place / "figure.png", "R@1 gained over the loss alone, points (95 % interval for unseen classes)"
    )


def cars(place: Path) -> None:
    """Whether the order on birds holds on cars."""
    folders = {"birds": RESULTS / "cub-tournament", "cars": place}
    found = {title: cells(folder / "records", "contestant") for title, folder in folders.items()}
    value = {title: intervals(own) for title, own in found.items()}
    names = sorted((name for (name,) in found["cars"]), key=lambda n: -value["cars"][(n,)][0])
    print_table("R@1 %", ["loss", *folders], [(n, *(shown(value[t][(n,)]) for t in folders)) for n in names])
    judged = pair_verdicts(scores_of(found["cars"]))
    pairs = [(a, b, verdict(judged, (a,), (b,))) for a, b in combinations(names, 2)]
    print_table("Losses on cars", ["loss", "against", "verdict"], pairs)
    agreement = tau(*([value[t][(n,)][0] for n in names] for t in folders))
    print_table("Agreement of the two orders", ["", "Kendall's tau"], [("birds, cars", f"{agreement:.2f}")])
    draw.lines({"": {n: {t: value[t][(n,)] for t in folders} for n in names}}, place / "figure.png", "test data")


STUDIES = {
    "wrong-labels": wrong_labels, "dimensions": dimensions, "network": network, "selection": selection,
    "small-and-large": orders, "thesis-loss": thesis_loss, "cub-extras": extras, "cars-tournament": cars,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=STUDIES)
    only = parser.parse_args(arguments).only
    for name, study in STUDIES.items():
        if only in (None, name):
            study(RESULTS / name)


if __name__ == "__main__":
    main()
