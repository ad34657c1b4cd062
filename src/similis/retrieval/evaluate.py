"""Evaluate an embedding: every metric for every query, then, as the last step, the means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from similis.labels import encode_labels
from similis.retrieval.embed import as_embedded
from similis.retrieval.match_ranks import ranked_tiles
from similis.retrieval.metrics import agreement, collapse, ranking
from similis.retrieval.metrics.clustering import kmeans
from similis.retrieval.reranking import score_queries
from similis.retrieval.search import hidden_members, members
from similis.retrieval.similarity import TILE, Similarity, as_gallery, block_width, to_comparable
from similis.values import Embedded, Neighbors, UserError

UNIFORMITY_ROWS = 4096  # uniformity uses all pairs of this many rows at most, drawn by the seed


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What was measured, on the host; nothing is averaged away.

    Attributes:
        per_query: metric name -> (Q,) float64; NaN for a query without any match in its gallery.
        means: metric name -> mean over the counted queries (those with a match); NaN if there are none.
        whole: metrics of the whole set: collapse checks, and NMI, AMI, pair F1 if asked for.
        matches: (Q,) R, the number of right answers in the gallery of each query.
        queries: (Q,) rows of the embedding that asked.
        neighbors: for each query the nearest rows of the embedding, in the order that the metrics saw:
            of equal similarity the wrong one first. -1 and -inf where there are none.
    """

    per_query: Mapping[str, Tensor]
    means: Mapping[str, float]
    whole: Mapping[str, float]
    matches: Tensor
    queries: Tensor
    neighbors: Neighbors

    def __repr__(self) -> str:
        """The means in one line; tensors are left out."""
        words = [f"{name} {100 * value:.2f} %" for name, value in self.means.items()]
        return f"Evaluation({', '.join(words)}; {self.counted} queries, {self.excluded} more without a match)"

    @property
    def excluded(self) -> int:
        """How many queries have no match in their gallery: in no mean, as no embedding could answer them."""
        return int((self.matches == 0).sum())

    @property
    def counted(self) -> int:
        """How many queries the means are over."""
        return len(self.matches) - self.excluded


def evaluate(
    embedded: Embedded | Tensor,
    labels: Any = None,
    *,
    ks: tuple[int, ...] = (1, 2, 4, 8),
    queries: Tensor | None = None,
    gallery: Tensor | None = None,
    groups: Any = None,
    similarity: Similarity = "cosine",
    rerank: str = "",
    neighbors: int = 8,
    clustering: bool = False,
    collapse_checks: bool = True,
    seed: int = 0,
    tile: int = TILE,
) -> Evaluation:
    """Recall@k, precision@k, R-precision, MAP@R and MRR of every query, exact, in memory of one tile.

    The rules, all of them:

    - A query never finds its own id. A copy of the image under another id stays in the gallery.
    - Ties are pessimistic: of equal similarity, non-matches come first. Bit-equal vectors are always equal.
    - A query without a match in its gallery is excluded from the means and counted. (Where a
      paper counts such queries as failures, multiply by ``counted / (counted + excluded)``.)
    - k beyond the gallery is allowed; precision@k still divides by k.
    - With ``groups``, gallery rows of the query's own group are neither matches nor non-matches.

    Args:
        embedded: vectors (N, D), labels (N,), ids (N,); or the vectors alone, with their labels beside them.
        labels: (N,) of vectors alone: a tensor, or a list of any hashable values such as strings.
        ks: cuts of recall and precision.
        queries: mask (N,) or row numbers of the rows that ask; None for all.
        gallery: mask (N,) or row numbers of the rows that answer; None for all.
        groups: (N,) for leave-group-out (a camera, a session), labels of any kind; a negative integer is no group.
        similarity: "cosine" or "dot".
        rerank: "alpha-qe" (query expansion) or "k-reciprocal" re-ranks the neighbours; for "cosine".
        neighbors: how many nearest neighbours to keep in the result.
        clustering: add NMI, AMI and pair F1 of k-means with as many clusters as classes, over all N rows.
        collapse_checks: add spectral decay, uniformity (over at most 4,096 rows) and alignment.
        seed: of k-means and of the rows for uniformity; ranking has no chance in it.
        tile: similarities held at once; memory is proportional to it, results do not depend on it beyond
            the rounding of a matrix product.

    Reference: Musgrave, Belongie, Lim: A Metric Learning Reality Check, ECCV 2020, for MAP@R.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9], [1.0, 1.0]])
        >>> found = evaluate(Embedded(x, torch.tensor([0, 0, 1, 1, 2]), torch.arange(5)), ks=(1,))
        >>> found.means["recall@1"], found.means["map@r"], found.excluded
        (1.0, 1.0, 1)
    """
    embedded = as_embedded(embedded, labels)
    groups = None if groups is None else encode_labels(groups)
    _check(embedded, ks, neighbors, groups)
    if rerank and similarity != "cosine":
        raise UserError(f"rerank={rerank!r} and similarity={similarity!r} given; re-ranking is defined for 'cosine'")
    vectors = to_comparable(embedded.vectors, similarity)
    labels, ids = (keys.to(vectors.device) for keys in (embedded.labels, embedded.ids))
    asking = _rows("queries", queries, vectors)
    answering = _rows("gallery", gallery, vectors)
    rows = vectors if gallery is None else vectors[answering]
    own_ids = (ids[asking], ids[answering])
    own_groups = None if groups is None else (groups.to(ids.device)[asking], groups.to(ids.device)[answering])
    tiles = ranked_tiles(
        score_queries(rerank, vectors[asking], as_gallery(rows), own_ids, own_groups),
        len(answering),
        members(labels[asking], labels[answering]),
        hidden_members(own_ids, own_groups),
        cut=max(ks, default=1),
        nearest=neighbors,
        tile=tile,
        width=len(answering) if rerank == "k-reciprocal" else block_width(len(answering), tile),
    )
    per_query, matches, nearest = _measure(tiles, _ranking_metrics(ks), answering)
    whole = _collapse(vectors, labels, seed) if collapse_checks else {}
    whole |= _clustering(vectors, labels, seed, tile) if clustering else {}
    matches, asking, nearest = matches.cpu(), asking.cpu(), Neighbors(*(part.cpu() for part in nearest))
    per_query = {name: values.cpu() for name, values in per_query.items()}
    means = {name: float(values[matches > 0].mean()) for name, values in per_query.items()}
    return Evaluation(per_query, means, whole, matches, asking, nearest)


Metrics = Mapping[str, Callable[[ranking.Ranks], Tensor]]


def _measure(
    tiles: Iterable[tuple[Tensor, ranking.Ranks, Neighbors]], metrics: Metrics, answering: Tensor
) -> tuple[dict[str, Tensor], Tensor, Neighbors]:
    """Values of each query, its matches, its neighbours as rows of the embedding."""
    parts = [
        (rows, found.matches, *near, *(metric(found) for metric in metrics.values())) for rows, found, near in tiles
    ]
    rows, *columns = (torch.cat(column) for column in zip(*parts, strict=True))
    order = rows.argsort()
    matches, index, similarity, *values = (column[order] for column in columns)
    index = torch.where(index >= 0, answering[index.clamp(min=0)], -1)
    return dict(zip(metrics, values, strict=True)), matches, Neighbors(index, similarity)


def _ranking_metrics(ks: tuple[int, ...]) -> Metrics:
    """Name -> function of ranks; a new ranking metric is one more line here."""
    return {
        **{f"recall@{k}": partial(ranking.recall_at_k, k=k) for k in ks},
        **{f"precision@{k}": partial(ranking.precision_at_k, k=k) for k in ks},
        "r_precision": ranking.r_precision,
        "map@r": ranking.map_at_r,
        "mrr": ranking.reciprocal_rank,
    }


def _collapse(vectors: Tensor, labels: Tensor, seed: int) -> dict[str, float]:
    """Collapse checks; on the sphere with cosine similarity, on the vectors as they are with dot."""
    chance = torch.Generator().manual_seed(seed)
    some = torch.randperm(len(vectors), generator=chance, device="cpu")[:UNIFORMITY_ROWS].to(vectors.device)
    return {
        "spectral_decay": collapse.spectral_decay(vectors),
        "uniformity": collapse.uniformity(vectors[some]) if len(vectors) > 1 else float("nan"),
        "alignment": collapse.alignment(vectors, labels),
    }


def _clustering(vectors: Tensor, labels: Tensor, seed: int, tile: int) -> dict[str, float]:
    """Agreement of classes with as many k-means clusters."""
    classes = len(torch.unique(labels))
    found = kmeans(vectors, classes, generator=torch.Generator().manual_seed(seed), tile=tile)
    names = {"nmi": agreement.nmi, "ami": agreement.ami, "pair_f1": agreement.pair_f1}
    return {name: metric(labels, found) for name, metric in names.items()}


def _rows(name: str, chosen: Tensor | None, vectors: Tensor) -> Tensor:
    """Row numbers (Q,) from a mask, from row numbers, or all."""
    count = len(vectors)
    if chosen is None:
        return torch.arange(count, device=vectors.device)
    if chosen.dtype == torch.bool and chosen.shape == (count,):
        rows = chosen.nonzero().flatten().to(vectors.device)
    elif chosen.dtype != torch.bool and not chosen.is_floating_point() and chosen.ndim == 1:
        rows = chosen.long().to(vectors.device)
    else:
        raise UserError(
            f"{name} of {chosen.dtype} and shape {tuple(chosen.shape)} given; give a mask ({count},) or row numbers"
        )
    if len(rows) == 0 or int(rows.min()) < 0 or int(rows.max()) >= count:
        raise UserError(f"{name} selects {len(rows)} rows; choose some, from 0 to {count - 1}")
    return rows


def _check(embedded: Embedded, ks: tuple[int, ...], neighbors: int, groups: Tensor | None) -> None:
    lengths = {name: len(part) for name, part in embedded._asdict().items()}
    if groups is not None:
        lengths["groups"] = len(groups)
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise UserError(f"lengths {lengths} given; vectors, labels, ids and groups need one length above 0")
    if not isinstance(ks, Iterable) or any(k < 1 for k in ks) or neighbors < 1:
        raise UserError(f"ks={ks} and neighbors={neighbors} given; give numbers from 1, for example ks=(1, 8)")
