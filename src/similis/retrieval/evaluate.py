"""Evaluate an embedding: every metric for every query, then, as the last step, the means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from similis.labels import encode_labels
from similis.registry import find_communicator
from similis.retrieval.embed import as_embedded
from similis.retrieval.evaluated_rows import Rows, join_answers, join_gallery, join_shards
from similis.retrieval.evaluation import Evaluation as Evaluation
from similis.retrieval.match_ranks import ranked_tiles
from similis.retrieval.metrics import graded, ranking
from similis.retrieval.search import hidden_members, members
from similis.retrieval.similarity import (
    TILE,
    GalleryRows,
    Similarity,
    as_gallery,
    block_width,
    column_blocks,
    to_comparable,
)
from similis.values import Embedded, Neighbors, UserError, import_extra


def evaluate(
    embedded: Embedded | Tensor,
    labels: Any = None,
    *,
    ks: tuple[int, ...] = (1, 2, 4, 8),
    queries: Tensor | None = None,
    gallery: Tensor | Embedded | tuple[Tensor, Any] | None = None,
    groups: Any = None,
    relevance: Tensor | None = None,
    distributed: bool = False,
    similarity: Similarity = "cosine",
    neighbors: int = 8,
    clustering: bool = False,
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
    - With grades (``relevance``, or several labels a row), a match is what has a gain above 0, and nDCG@k and mAP (over
      all matches) join the metrics.

    Args:
        embedded: vectors (N, D), labels (N,), ids (N,); or the vectors alone, with their labels beside them.
        labels: (N,) of vectors alone: a tensor, or a list of any hashable values such as strings; or (N, L), several
            labels for each row: the gain of an answer is the sum over labels of the products, for 0 and 1 the number of
            labels that it shares with the query.
        ks: cuts of recall and precision.
        queries: mask (N,) or row numbers of the rows that ask; None for all.
        gallery: mask (N,) or row numbers of the rows that answer; None for all. Or other rows than those that ask:
            (vectors, labels) or an ``Embedded``.
        groups: (N,) for leave-group-out (a camera, a session), labels of any kind; a negative integer is no group.
        relevance: (Q, G) gains of the gallery's rows for each query, at least 0, instead of those of the labels.
        distributed: the rows are a shard, and every rank of the process group has one; all get the result of all
            rows. Each rank holds all vectors and asks with its part of the queries.
        similarity: "cosine" or "dot".
        neighbors: how many nearest neighbours to keep in the result.
        clustering: add NMI, AMI and pair F1 of k-means with as many clusters as classes, over all N rows, computed by
            scikit-learn (extra ``sklearn``).
        seed: of k-means; ranking has no chance in it.
        tile: similarities held at once; memory is proportional to it, results do not depend on it beyond
            the rounding of a matrix product.

    Reference: Musgrave, Belongie, Lim: A Metric Learning Reality Check, ECCV 2020, for MAP@R.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9], [1.0, 1.0]])
        >>> found = evaluate(Embedded(x, torch.tensor([0, 0, 1, 1, 2]), torch.arange(5)), ks=(1,))
        >>> found.means["recall@1"], found.means["map@r"], found.excluded
        (1.0, 1.0, 1)
    """
    apart = labels is not None
    embedded = as_embedded(embedded, labels)
    if isinstance(gallery, tuple):
        embedded, queries, gallery = join_gallery(embedded, gallery, apart=apart)
    groups = None if groups is None else encode_labels(groups)
    ranks = find_communicator() if distributed else None
    asking, answering = (
        _rows(name, chosen, embedded.vectors) for name, chosen in (("queries", queries), ("gallery", gallery))
    )
    every = Rows(embedded, asking, answering, groups)
    embedded, asking, answering, groups = every if ranks is None else join_shards(every, ranks, apart=apart)
    _check(embedded, ks, neighbors, groups)
    if embedded.labels.ndim > 2 or embedded.labels.shape[1:] == (1,):
        raise UserError(
            f"labels have shape {tuple(embedded.labels.shape)}; give one label a row (N,), or columns of several (N, L)"
        )
    if not len(asking) or not len(answering):
        raise UserError(f"{len(asking)} queries and {len(answering)} rows of a gallery given; choose some of each")
    vectors = to_comparable(embedded.vectors, similarity)
    labels, ids = (keys.to(vectors.device) for keys in (embedded.labels, embedded.ids))
    asking, answering = asking.to(vectors.device), answering.to(vectors.device)
    rows = vectors if gallery is None else vectors[answering]
    own_ids = (ids[asking], ids[answering])
    own_groups = None if groups is None else (groups.to(ids.device)[asking], groups.to(ids.device)[answering])
    score = partial(_compare_tile, vectors[asking], as_gallery(rows))
    hidden, metrics = hidden_members(own_ids, own_groups), _ranking_metrics(ks)
    gains = _gains(labels, relevance, asking, answering)
    tiles: Tiles
    if gains is None:
        tiles = ranked_tiles(
            score,
            len(answering),
            members(labels[asking], labels[answering]),
            hidden,
            cut=max(ks, default=1),
            nearest=neighbors,
            tile=tile,
            width=block_width(len(answering), tile),
        )
    else:
        sizes = len(asking), len(answering)
        tiles = graded.graded_tiles(score, gains, sizes, hidden, nearest=neighbors, tile=tile)
        metrics = {**metrics, **_graded_metrics(ks)}
    per_query, matches, nearest = _measure(tiles, metrics, answering)
    whole = _clustering(vectors, labels, seed) if clustering else {}
    matches, asking, nearest = matches.cpu(), asking.cpu(), Neighbors(*(part.cpu() for part in nearest))
    per_query = {name: values.cpu() for name, values in per_query.items()}
    if ranks is not None:
        per_query, matches, nearest, asking = join_answers(per_query, matches, nearest, asking, ranks)
    means = {name: float(values[matches > 0].mean()) for name, values in per_query.items()}
    classes = labels.cpu()[asking] if labels.ndim == 1 else torch.arange(len(asking))
    return Evaluation(per_query, means, whole, matches, asking, classes, nearest)


def _compare_tile(queries: Tensor, gallery: GalleryRows, rows: Tensor, width: int) -> Iterable[tuple[int, Tensor]]:
    """Similarities of some queries (t,) to blocks of the gallery."""
    return column_blocks(queries[rows], gallery, width)


def _gains(
    labels: Tensor, relevance: Tensor | None, asking: Tensor, answering: Tensor
) -> Callable[[Tensor], Tensor] | None:
    """Queries (t,) -> gains (t, G) of the gallery; None where a match is an equal label."""
    if relevance is not None:
        if relevance.shape != (len(asking), len(answering)) or bool((relevance < 0).any()):
            raise UserError(
                f"relevance has shape {tuple(relevance.shape)} and {len(asking)} queries meet {len(answering)} rows; "
                "give one gain for each, 0 or more (with distributed=True give labels instead)"
            )
        return lambda rows: relevance.to(asking.device)[rows]
    if labels.ndim == 1:
        return None
    asked, known = labels[asking].double(), labels[answering].double()
    return lambda rows: asked[rows] @ known.T


Tiles = Iterable[tuple[Tensor, Any, Neighbors]]


Metrics = Mapping[str, Callable[[Any], Tensor]]


def _measure(tiles: Tiles, metrics: Metrics, answering: Tensor) -> tuple[dict[str, Tensor], Tensor, Neighbors]:
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


def _graded_metrics(ks: tuple[int, ...]) -> Metrics:
    """Name -> function of gains."""
    return {**{f"ndcg@{k}": partial(graded.ndcg_at_k, k=k) for k in ks}, "map": graded.average_precision}


def _clustering(vectors: Tensor, labels: Tensor, seed: int) -> dict[str, float]:
    """Agreement of classes with as many k-means clusters."""
    if labels.ndim > 1:
        raise UserError("clustering=True given with several labels for each row; clusters are compared with classes")
    cluster = import_extra("sklearn.cluster")
    classes, rows = labels.cpu().numpy(), vectors.cpu().numpy()
    distinct = min(len(torch.unique(labels)), len(np.unique(rows, axis=0)))  # k-means warns of clusters without rows
    found = cluster.KMeans(distinct, n_init=1, random_state=seed % 2**32).fit_predict(rows)
    return agreement(classes, found)


def agreement(classes: Any, clusters: Any) -> dict[str, float]:
    """NMI, AMI and pair F1 of two partitions (N,), integers on the host."""
    metrics = import_extra("sklearn.metrics")
    (_, in_cluster), (in_class, both) = metrics.cluster.pair_confusion_matrix(classes, clusters).tolist()
    return {
        "nmi": float(metrics.normalized_mutual_info_score(classes, clusters)),
        "ami": float(metrics.adjusted_mutual_info_score(classes, clusters)),
        "pair_f1": 2 * both / (2 * both + in_class + in_cluster) if both + in_class + in_cluster else 1.0,
    }


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
    if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= count):
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
