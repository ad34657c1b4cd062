"""The thesis' printed results and its tournament, recomputed from its own tables."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from similis.study.statistics.rank_sums import RankSum, rank_sums

NAMES = {
    "Contrastive": "contrastive",
    "Triplet": "triplet",
    "LiftedStructure": "lifted",
    "NPair": "npair",
    "ProxyNCA": "proxy_nca",
    "Margin": "margin",
    "ArcFace": "arcface",
    "MultiSimilarity": "multi_similarity",
    "SoftTriple": "soft_triple",
    "ProxyAnchor": "proxy_anchor",
}
NETWORKS = ("ResNet50", "BNInception", "GoogLeNet")
SIZES = (64, 128, 512, 1024)


@dataclass(frozen=True)
class Cell:
    """One printed number: where it stands, and its value in per cent."""

    dataset: str
    network: str
    dim: str
    loss: str
    metric: str
    value: float


@dataclass(frozen=True)
class Erratum:
    """A printed figure of Table 11 that its own tables contradict."""

    loss: str
    figure: str
    printed: float
    recomputed: float


def lines_of(name: str) -> list[dict[str, str]]:
    """Rows of one of the CSV tables."""
    text = (Path(__file__).parent / "thesis_tables" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def cells(*, suspicious: bool = False) -> tuple[Cell, ...]:
    """Every printed cell once (Tables 17 to 19 repeat others); those that cannot be right only if asked for."""
    doubtful = {
        (row["dataset"], row["network"], row["dim"], row["loss"], row["metric"].replace("_rank", ""))
        for row in lines_of("suspicious_cells.csv")
    }
    found: dict[tuple[str, ...], Cell] = {}
    for row in lines_of("all_tables.csv"):
        place = (row["dataset"], row["network"], row["dim"], row["loss"], row["metric"])
        short = (*place[:4], row["metric"].removeprefix("tournament_").removesuffix("_rank"))
        if suspicious or short not in doubtful:
            found.setdefault(place, Cell(*place, value=float(row["value"])))
    return tuple(found.values())


def recalls(dataset: str, network: str, dim: int, metric: str = "R@1") -> dict[str, float]:
    """Our names of the ten losses -> printed per cent in one experiment; empty if the thesis has none."""
    return {
        NAMES[cell.loss]: cell.value
        for cell in cells()
        if (cell.dataset, cell.network, cell.dim, cell.metric) == (dataset, network, str(dim), metric)
        and cell.loss in NAMES
    }


def table11(metric: str = "R@1") -> list[RankSum]:
    """The thesis' tournament, recomputed from its CUB tables: three networks, four sizes."""
    return rank_sums([recalls("CUB200-2011", network, dim, metric) for network in NETWORKS for dim in SIZES])


def all_experiments() -> list[RankSum]:
    """The same rule over all 28 experiments of the seven result tables."""
    places = dict.fromkeys((c.dataset, c.network, int(c.dim)) for c in cells() if c.metric == "R@1" and c.loss in NAMES)
    return rank_sums([recalls(*place) for place in places])


def errata() -> list[Erratum]:
    """Where Table 11 as printed disagrees with its own tables by more than rounding to two digits."""
    printed = {
        (NAMES[c.loss], c.metric.removeprefix("tournament_").removesuffix("_rank")): c.value
        for c in cells(suspicious=True)
        if c.metric.startswith("tournament_")
    }
    found = []
    for line in table11():
        for figure, value in (("total", line.total), ("mean", line.mean), ("std", line.deviation)):
            if abs(printed[line.name, figure] - value) > 0.005 + 1e-9:
                found.append(Erratum(line.name, figure, printed[line.name, figure], value))
    return sorted(found, key=lambda erratum: (erratum.loss, erratum.figure))
