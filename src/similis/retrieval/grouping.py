"""Clusters without a number: average linkage cut at a similarity, exact, for any number of samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from similis.retrieval.metrics.agreement import pair_f1
from similis.retrieval.similarity import TILE, tile_rows
from similis.values import UserError, import_extra

LARGEST = 12_000  # samples that are linked at once: their similarities take 0.6 GB
STEP = 0.02  # by which the cut rises within a component that is larger
EDGES = 2**24  # that are held before their components are merged
CUTS = 60  # that are tried when a threshold is chosen


class Groups(NamedTuple):
    """Clusters of N samples.

    Attributes:
        assignment: (N,) cluster of each sample, the largest cluster first.
        approximate: samples of components that were too large to be linked at once.
    """

    assignment: Tensor
    approximate: int


class Fit(NamedTuple):
    """How well N samples fit their clusters.

    Attributes:
        cohesion: (N,) mean similarity to the other samples of the cluster; 1 for a sample alone.
        rival: (N,) mean similarity to the samples of the other cluster that is most like it; -1 if there is none.
    """

    cohesion: Tensor
    rival: Tensor


def group_vectors(vectors: Tensor, threshold: float) -> Groups:
    """Average linkage: clusters merge while the mean similarity of their samples is at least the threshold.

    Two clusters whose mean similarity reaches the threshold hold a pair that reaches it, so every cluster lies within
    a connected component of the graph of such pairs. The components are found in tiles and linked one by one: the
    result is that of linking all at once, without N x N similarities in memory. A component of more than 12,000
    samples is divided at a higher threshold first, and ``approximate`` counts its samples.

    Args:
        vectors: unit vectors (N, D).
        threshold: cosine similarity.

    Cost: time O(N^2 D) for the graph, O(n^2) for a component of n; memory O(edges + the largest component squared).

    Example:
        >>> x = torch.nn.functional.normalize(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]))
        >>> group_vectors(x, 0.9).assignment.tolist()
        [0, 0, 1]
    """
    if not -1 <= threshold <= 1:
        raise UserError(f"threshold={threshold} given; a cosine similarity lies between -1 and 1")
    found = torch.empty(len(vectors), dtype=torch.long)
    count = approximate = 0
    waiting = [(rows, threshold) for rows in components(vectors, threshold)]
    while waiting:
        rows, cut = waiting.pop()
        if len(rows) > LARGEST:
            approximate += len(rows) if cut == threshold else 0
            waiting += [(rows[part], cut + STEP) for part in components(vectors[rows], cut + STEP)]
            continue
        own = cut_linkage(link(vectors[rows]), threshold) if len(rows) > 1 else torch.zeros(1, dtype=torch.long)
        found[rows] = own + count
        count += int(own.max()) + 1
    return Groups(by_size(found), approximate)


def components(vectors: Tensor, threshold: float) -> list[Tensor]:
    """Rows of each connected component of the graph whose edges are pairs at least this similar."""
    label = torch.arange(len(vectors))
    starts: list[Tensor] = []
    ends: list[Tensor] = []
    for rows in torch.split(torch.arange(len(vectors)), tile_rows(len(vectors), TILE)):
        first, second = (vectors[rows] @ vectors[int(rows[0]) :].T >= threshold).nonzero(as_tuple=True)
        starts.append(rows[first])
        ends.append(second + rows[0])
        if sum(map(len, starts)) > EDGES:
            label, starts, ends = _merge(label, starts, ends), [], []
    label = _merge(label, starts, ends)
    order = label.argsort(stable=True)
    return list(torch.split(order, label.bincount().tolist()))


def _merge(label: Tensor, starts: list[Tensor], ends: list[Tensor]) -> Tensor:
    """Components (N,) after these edges, from the components before them."""
    a, b = (label[torch.cat([*some, torch.arange(len(label))])].numpy() for some in (starts, ends))
    shape = (len(label), len(label))
    matrix = import_extra("scipy.sparse").coo_matrix((np.ones(len(a), dtype=bool), (a, b)), shape=shape)
    joined = import_extra("scipy.sparse.csgraph").connected_components(matrix, directed=False)[1]
    found: Tensor = torch.unique(torch.from_numpy(joined).long()[label], return_inverse=True)[1]
    return found


def link(vectors: Tensor) -> NDArray[np.float64]:
    """The tree of average linkage over cosine distances, as scipy has it."""
    hierarchy = import_extra("scipy.cluster.hierarchy")
    upper = np.triu_indices(len(vectors), 1)
    distances = (1 - vectors @ vectors.T).numpy()[upper]
    return np.asarray(hierarchy.linkage(distances.clip(min=0), "average"))


def cut_linkage(tree: NDArray[np.float64], threshold: float) -> Tensor:
    """Clusters (n,) of a tree at a similarity."""
    hierarchy = import_extra("scipy.cluster.hierarchy")
    return torch.from_numpy(hierarchy.fcluster(tree, 1 - threshold, "distance")).long() - 1


def by_size(assignment: Tensor) -> Tensor:
    """The same clusters, numbered from the largest; equal ones by their first sample."""
    _, found = torch.unique(assignment, return_inverse=True)
    first = torch.full((int(found.max()) + 1,), len(found)).scatter_reduce(0, found, torch.arange(len(found)), "amin")
    order = torch.from_numpy(np.lexsort((first.numpy(), -found.bincount().numpy())))
    return order.argsort()[found]


def cluster_sums(vectors: Tensor, assignment: Tensor) -> tuple[Tensor, Tensor]:
    """The sum (C, D) of the samples of each cluster, and how many they are (C,)."""
    sizes = assignment.bincount()
    return torch.zeros(len(sizes), vectors.shape[1]).index_add_(0, assignment, vectors), sizes


def describe(vectors: Tensor, assignment: Tensor) -> Fit:
    """How well each sample fits its cluster, and the next one."""
    sums, sizes = cluster_sums(vectors, assignment)
    cohesion, rival = torch.ones(len(vectors)), torch.full((len(vectors),), -1.0)
    for rows in torch.split(torch.arange(len(vectors)), tile_rows(len(sizes), TILE)):
        own = assignment[rows, None]
        means = vectors[rows] @ sums.T
        others = sizes[own[:, 0]] - 1
        held = (means.gather(1, own)[:, 0] - 1) / others.clamp(min=1)  # without the sample itself, whose share is 1
        cohesion[rows] = torch.where(others > 0, held, 1.0)
        if len(sizes) > 1:
            rival[rows] = (means / sizes).scatter(1, own, -1.0).amax(dim=1)
    return Fit(cohesion, rival)


def join_groups(new: Tensor, vectors: Tensor, assignment: Tensor, threshold: float) -> Tensor:
    """Clusters of new samples (M,): the old one that is most like each, or new ones for those that are like none.

    Old clusters stay as they are. A sample joins a cluster if its mean similarity to it is at least the threshold;
    the others are grouped among themselves and numbered after the old ones.
    """
    sums, sizes = cluster_sums(vectors, assignment)
    best, found = (new @ (sums / sizes[:, None]).T).max(dim=1)
    alone = (best < threshold).nonzero()[:, 0]
    if len(alone):
        found[alone] = group_vectors(new[alone], threshold).assignment + len(sizes)
    return found


def grouping_threshold(vectors: Tensor, labels: Tensor, *, sample: int = 6000) -> tuple[float, float]:
    """The threshold whose clusters agree best with known classes, by pair F1, and that F1.

    Args:
        vectors: unit vectors (N, D) of classes that were not trained on.
        labels: (N,).
        sample: rows that are used, whole classes in the order of their labels.
    """
    kept = torch.unique(labels, return_inverse=True)[1]
    rows = kept.argsort(stable=True)[:sample]
    if len(torch.unique(labels[rows])) < 2:
        raise UserError("the threshold of clusters is chosen on two classes or more; give more classes, or a threshold")
    tree = link(vectors[rows])
    cuts = np.quantile(1 - tree[:, 2], np.linspace(0, 1, CUTS))
    scores = [pair_f1(labels[rows], cut_linkage(tree, float(cut))) for cut in cuts]
    best = int(np.argmax(scores))
    return float(cuts[best]), scores[best]
