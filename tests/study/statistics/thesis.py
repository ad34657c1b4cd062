"""The thesis' printed results and its tournament, recomputed from its own tables."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from similis.study.statistics.rank_sums import RankSum, rank_sums
from tests.docs.blocks import ROOT

NAMES = {
    "Contrastive": "contrastive", "Triplet": "triplet", "LiftedStructure": "lifted", "NPair": "npair",
    "ProxyNCA": "proxy_nca", "Margin": "margin", "ArcFace": "arcface", "MultiSimilarity": "multi_similarity",
    "SoftTriple": "soft_triple", "ProxyAnchor": "proxy_anchor",
}  # fmt: skip
NETWORKS = ("ResNet50", "BNInception", "GoogLeNet")
SIZES = (64, 128, 512, 1024)
TABLES = ("06", "07", "08", "09", "10", "11", "20", "21")


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


def lines_of(path: Path) -> list[dict[str, str]]:
    """Rows of one of the CSV tables."""
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


@cache
def cells(*, suspicious: bool = False) -> tuple[Cell, ...]:
    """Every recall and rank (Tables 17 to 19 repeat others); those that cannot be right only if asked for."""
    keys = ("dataset", "network", "dim", "loss", "metric")
    doubtful = {tuple(row[key] for key in keys) for row in lines_of(Path(__file__).parent / "suspicious_cells.csv")}
    found = []
    for table in TABLES:
        for row in lines_of(ROOT / "results" / "thesis" / "tables" / f"table{table}.csv"):
            place = [row.pop(key, "all") for key in keys[:4]]
            for metric in set(row) - {"part"}:
                if suspicious or (*place, metric) not in doubtful:
                    found.append(Cell(*place, metric.replace("r@", "R@"), value=float(row[metric])))
    return tuple(found)


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
        (NAMES[c.loss], c.metric.removesuffix("_rank")): c.value
        for c in cells(suspicious=True)
        if c.metric.endswith("_rank")
    }
    found = []
    for line in table11():
        for figure, value in (("total", line.total), ("mean", line.mean), ("std", line.deviation)):
            if abs(printed[line.name, figure] - value) > 0.005 + 1e-9:
                found.append(Erratum(line.name, figure, printed[line.name, figure], value))
    return sorted(found, key=lambda erratum: (erratum.loss, erratum.figure))
