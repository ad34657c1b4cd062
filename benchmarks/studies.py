"""Tables and figures of the studies under ``docs/results`` from their committed records; nothing is trained.

``python -m benchmarks.studies [--only STUDY]``. The runs: ``similis tournament run docs/results/STUDY/plan.yaml``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks import study_figures as draw
from benchmarks.rounds import print_table
from similis.study.components import Scores
from similis.study.records import Records
from similis.study.sentences import PairVerdict, pair_verdicts
from similis.study.table import own_intervals, recall

RESULTS = Path(__file__).parents[1] / "docs" / "results"
Record = Mapping[str, Any]
Key = tuple[str, ...]
PROXY = ("soft_triple", "proxy_anchor", "normface", "proxy_nca", "proxy_nca_pp", "proxy_gml", "proxy_repulsion")


def cells(place: Path, key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    """Final records by key, in the order of their names."""
    found: dict[Key, list[Record]] = {}
    for record in Records(place).all("final"):
        found.setdefault(key(record), []).append(record)
    return found


def scores_of(found: Mapping[Key, Sequence[Record]]) -> Scores:
    """Per-class recall of every cell and of the seeds that all cells have."""
    seeds = sorted(set.intersection(*({r["seed"] for r in rows} for rows in found.values())))
    values = np.stack([np.stack([recall(rows, seed) for seed in seeds], axis=1) for rows in found.values()])
    sizes = np.array(next(iter(found.values()))[0]["per_class"]["queries"], dtype=float)
    return Scores(tuple(" ".join(key) for key in found), values, sizes)


def intervals(found: Mapping[Key, Sequence[Record]]) -> dict[Key, tuple[float, float]]:
    """Mean and half of the 95 % interval on new classes of every cell, in per cent."""
    scores = scores_of(found)
    far = own_intervals(scores)[1]
    return {key: (100 * m, 100 * h) for key, m, h in zip(found, scores.means, far, strict=True)}


def verdict(judged: Sequence[PairVerdict], one: Key, other: Key) -> str:
    """The difference of two cells on both targets, corrected for all pairs of the study."""
    a, b = " ".join(one), " ".join(other)
    words = []
    for pair in judged:
        if {pair.first, pair.second} == {a, b}:
            points = pair.difference if pair.first == a else -pair.difference
            told = ", not told apart" if pair.verdict == "not told apart" else ""
            words.append(f"{points:+.1f} ± {(pair.high - pair.low) / 2:.1f} on {pair.target}{told}")
    return "; ".join(words)


def shown(pair: tuple[float, float]) -> str:
    """Mean and half width."""
    return f"{pair[0]:.1f} ± {pair[1]:.1f}"


def over_seeds(values: Iterable[float]) -> tuple[float, float]:
    """Mean and half of the 95 % t-interval over seeds, in per cent: these classes, this training."""
    x = 100 * np.array(list(values))
    return float(x.mean()), float(stats.t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))


def by_seed(rows: Sequence[Record]) -> np.ndarray:
    """Test R@1 of each seed."""
    return np.array([r["test"]["recall@1"] for r in sorted(rows, key=lambda r: r["seed"])])


def wrong_labels(place: Path) -> None:
    """Who survives wrong labels."""
    shares = {"none": "0 %", "ten": "10 %", "thirty": "30 %"}
    found = cells(place / "records", lambda r: (r["contestant"], r["arena"]))
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
        kind: np.mean([by_seed(found[n, "none"]) - by_seed(found[n, "thirty"]) for n in members], axis=0)
        for kind, members in families.items()
    }
    losses = [(f"mean of the {kind} losses", shown(over_seeds(each))) for kind, each in lost.items()]
    losses.append(("pair losses lose more by", shown(over_seeds(lost["pair"] - lost["proxy"]))))
    print_table("Points lost at 30 %, with the interval over seeds", ["", "points"], losses)
    named = {name: {label: value[name, arena] for arena, label in shares.items()} for name in names}
    draw.lines({"": named}, place / "figure.png", "wrong training labels", [n for n in names if n in PROXY])


def dimensions(place: Path) -> None:
    """How many dimensions, and whether one training serves all."""
    sizes = (64, 128, 512, 1024)
    found = cells(place / "records", lambda r: (r["contestant"], r["arena"]))
    names = list(dict.fromkeys(name for name, _ in found if "nested" not in name))
    panels: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    rows = []
    for name in names:
        nested = next(key for key in found if key[0].startswith(f"{name}+nested"))
        apart = {str(d): over_seeds(by_seed(found[name, f"d{d}"])) for d in sizes}
        both = [{str(d): over_seeds(r["test"][f"recall@1 of {d}"] for r in found[key]) for d in sizes}
                for key in (nested, (name, "d1024"))]  # fmt: skip
        kinds = {"trained for each size": apart, "one nested training": both[0], "1,024 cut": both[1]}
        panels[name] = kinds
        rows += [(name, kind, *(shown(line[str(d)]) for d in sizes)) for kind, line in kinds.items()]
    print_table("Dimensions", ["loss", "training", *map(str, sizes)], rows)
    draw.lines(panels, place / "figure.png", "dimensions")


def network(place: Path) -> None:
    """Whether the loss or the network changes more."""
    found = cells(place / "records", lambda r: (r["contestant"], r["arena"]))
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
    draw.lines({"": {name: {net: value[name, net] for net in nets} for name in names}}, place / "figure.png", "network")


def means_by(rows: Sequence[Record], part: str) -> list[float]:
    """Test R@1 of each seed, or of each fold."""
    numbers = sorted({r[part] for r in rows})
    return [float(np.mean([r["test"]["recall@1"] for r in rows if r[part] == n])) for n in numbers]


def selection(place: Path) -> None:
    """How much selecting on test flatters, and which share of classes predicts the order on test."""
    kinds = {"test": "on test", "validation": "on validation", "folds": "by ten folds"}
    found = {(name, kind): rows for kind in kinds
             for (name,), rows in cells(place / "records" / kind, lambda r: (r["contestant"],)).items()}  # fmt: skip
    units = {key: means_by(rows, "fold" if key[1] == "folds" else "seed") for key, rows in found.items()}
    names = sorted({name for name, _ in found}, key=lambda n: -np.mean(units[n, "validation"]))
    gain = {n: np.subtract(units[n, "test"], units[n, "validation"]) for n in names}
    listed = [
        (n, *(shown(over_seeds(units[n, kind])) if (n, kind) in found else "" for kind in kinds),
         shown(over_seeds(gain[n]))) for n in names
    ]  # fmt: skip
    print_table("Selected how", ["loss", *kinds.values(), "test over validation"], listed)
    both = [[np.mean(units[n, kind]) for n in names] for kind in ("test", "validation")]
    overall = [
        ("mean of the losses, interval over losses", shown(over_seeds([gain[n].mean() for n in names]))),
        ("Kendall's tau of the two orders", f"{stats.kendalltau(*both).statistic:.2f}"),
    ]
    print_table("Test over validation", ["", "points"], overall)
    validation_shares(cells(place / "records" / "shares", lambda r: (r["arena"], r["contestant"])))
    named = {n: {label: over_seeds(units[n, k]) for k, label in kinds.items() if (n, k) in found} for n in names}
    draw.lines({"": named}, place / "figure.png", "settings and epoch selected")


def validation_shares(found: Mapping[Key, Sequence[Record]]) -> None:
    """How well the order on validation classes predicts the order on test, for each share of classes."""
    table = []
    for arena in sorted({arena for arena, _ in found}):
        rows = [sorted(own, key=lambda r: r["seed"]) for (a, _), own in found.items() if a == arena]
        parts = {
            part: np.array([[r[part]["recall@1"] for r in own] for own in rows]) for part in ("validation", "test")
        }
        taus = [stats.kendalltau(v, t).statistic for v, t in zip(parts["validation"].T, parts["test"].T, strict=True)]
        mean = stats.kendalltau(parts["validation"].mean(1), parts["test"].mean(1)).statistic
        table.append((f"{int(arena[-2:])} %", *(f"{100 * part.mean():.1f}" for part in parts.values()),
                      f"{mean:.2f}", ", ".join(f"{tau:.2f}" for tau in taus)))  # fmt: skip
    columns = ["share", "mean validation R@1 %", "mean test R@1 %", "Kendall's tau, means of seeds", "each seed"]
    print_table("Shares of the training classes for validation", columns, table)


def orders(place: Path) -> None:
    """Whether the order on small data holds on photos."""
    emoji = cells(place / "records", lambda r: (r["arena"], r["contestant"]))
    nine = sorted({name for _, name in emoji})
    known = {"Omniglot": RESULTS / "omniglot-tournament", "CUB": RESULTS / "cub-tournament"}
    means: dict[str, dict[str, float]] = {}
    for title, folder in known.items():
        value = intervals(cells(folder / "records", lambda r: (r["contestant"],)))
        means[title] = {name: value[(name,)][0] for name in nine}
    for arena in ("balanced", "random"):
        value = intervals({k: v for k, v in emoji.items() if k[0] == arena})
        means[f"emoji, {arena}"] = {name: value[arena, name][0] for name in nine}
    titles = ["Omniglot", "emoji, balanced", "emoji, random", "CUB"]
    rows = [(name, *(means[t][name] for t in titles)) for name in sorted(nine, key=lambda n: -means["CUB"][n])]
    print_table("R@1 in per cent", ["loss", *titles], rows)
    table = [(a, b, float(stats.kendalltau([means[a][n] for n in nine], [means[b][n] for n in nine]).statistic))
             for a, b in combinations(titles, 2)]  # fmt: skip
    print_table("Agreement of two orders", ["data", "data", "Kendall's tau"], table)
    draw.ranks({t: sorted(nine, key=lambda n: -means[t][n]) for t in titles}, place / "figure.png")


def thesis_loss(place: Path) -> None:
    """Whether the thesis' own loss holds up."""
    found = cells(place / "records", lambda r: (r["contestant"],))
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


STUDIES = {
    "wrong-labels": wrong_labels, "dimensions": dimensions, "network": network, "selection": selection,
    "small-and-large": orders, "thesis-loss": thesis_loss,
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
