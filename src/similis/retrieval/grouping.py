"""Clusters without labels and without a number of them: communities of the graph of nearest neighbours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from similis.retrieval.search import search
from similis.retrieval.similarity import to_comparable
from similis.retrieval.suspects import nearest_samples
from similis.values import UserError, import_extra

NEIGHBORS = 10  # of each sample in the graph at most, and voters for a new one
WEAKEST = 1e-3  # weight of a link; smaller cosines count as this
RESOLUTION = 5.0
SAMPLES = 50  # for each unit of resolution at least; with fewer, clusters fall apart into single samples


def group_vectors(vectors: Tensor, resolution: float = RESOLUTION) -> Tensor:
    r"""Cluster (N,) of each sample, the largest cluster first: the communities of a graph, found by Louvain's method.

    Each sample is linked to its 10 nearest ones, or sqrt(N) if that is less, with the cosine as weight. A
    greedy search joins samples while that raises the modularity

    .. math:: \sum_c \frac{w_c}{w} - \gamma \left(\frac{d_c}{2w}\right)^2,

    where w is the weight of all links, :math:`w_c` that of the links within cluster c, :math:`d_c` the sum over its
    samples of the weights of their links, and :math:`\gamma` the resolution. The order of samples does not matter, and
    those with equal vectors count as one.

    Args:
        vectors: (N, D).
        resolution: higher gives more, smaller clusters. N distinct samples use at most max(1, N / 50).

    When to use: to sort unlabelled samples. It splits even samples of a single kind; for few kinds take a
    resolution of 1.

    Cost: time O(N^2 D) for the neighbours, which are found in tiles; memory O(N D).

    References: Blondel et al., Fast unfolding of communities in large networks, 2008.

    Example:
        >>> group_vectors(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])).tolist()
        [0, 0, 1, 1]
    """
    check_resolution(resolution)
    distinct, own = torch.unique(to_comparable(vectors), dim=0, return_inverse=True)  # sorted, whatever their order
    if len(distinct) < 2:
        return torch.zeros(len(own), dtype=torch.long)
    most = max(1.0, len(distinct) / SAMPLES)
    # not Leiden of the same package: it draws from rand() of C, so that two calls differ whatever the random_state
    louvain = import_extra("sknetwork.clustering").Louvain(min(resolution, most))
    return by_size(torch.from_numpy(louvain.fit_predict(neighbor_graph(distinct))).long()[own.cpu()])


def check_resolution(resolution: float) -> None:
    """Refuse what is no positive number."""
    if not 0 < resolution < math.inf:
        raise UserError(f"resolution={resolution} given; give a positive number: higher gives more, smaller clusters")


def neighbor_graph(vectors: Tensor) -> Any:
    """The symmetric sparse matrix (N, N) of cosines with nearest neighbours; of two weights the larger."""
    count = len(vectors)
    k = min(NEIGHBORS, math.isqrt(count))
    near = nearest_samples(vectors, k)
    weights = near.similarity.clamp(min=WEAKEST).flatten().cpu().numpy()
    ends = (np.repeat(np.arange(count), k), near.index.flatten().cpu().numpy())
    graph = import_extra("scipy.sparse", "sklearn").csr_matrix((weights, ends), shape=(count, count))
    return graph.maximum(graph.T)


def by_size(assignment: Tensor) -> Tensor:
    """The same clusters, numbered from the largest; equal ones by their first sample."""
    _, found = torch.unique(assignment, return_inverse=True)
    rows = torch.arange(len(found), device=found.device)
    first = rows.new_full((int(found.max()) + 1,), len(found)).scatter_reduce(0, found, rows, "amin")
    order = torch.from_numpy(np.lexsort((first.numpy(), -found.bincount().numpy())))
    return order.argsort()[found]


def join_groups(new: Tensor, vectors: Tensor, assignment: Tensor) -> Tensor:
    """Cluster (M,) of each new sample: the one with most weight among its 10 nearest old samples.

    A new sample never opens a cluster, however little it is like the old ones; group all samples anew for that.

    Args:
        new: (M, D).
        vectors: (N, D) of the old samples.
        assignment: (N,) of :func:`group_vectors`.
    """
    near = search(new, vectors, min(NEIGHBORS, len(vectors)))
    voted = assignment[near.index]
    weights = near.similarity.clamp(min=WEAKEST)
    votes = torch.where(voted[:, :, None] == voted[:, None, :], weights[:, None, :], 0.0).sum(dim=2)
    return voted.gather(1, votes.argmax(dim=1, keepdim=True))[:, 0]
