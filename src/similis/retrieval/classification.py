"""Classify by the nearest vectors of a labelled gallery, with "unknown" as an answer."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from similis.retrieval.intervals import DRAWS, Interval, mean_interval
from similis.retrieval.search import search
from similis.retrieval.similarity import TILE, GalleryRows, Similarity, to_comparable
from similis.values import Neighbors, UserError

UNKNOWN = -1
ROUNDING = 1e-6  # by which the same cosine may differ between two products of float32


class Classified(NamedTuple):
    """Label of each query (Q,), -1 for unknown, and its score (Q,): the similarity of the label's nearest voter."""

    labels: Tensor
    scores: Tensor


def classify_vectors(
    queries: Tensor,
    gallery: Tensor | GalleryRows,
    labels: Tensor,
    *,
    k: int = 1,
    threshold: float | None = None,
    similarity: Similarity = "cosine",
    ids: tuple[Tensor, Tensor] | None = None,
    groups: tuple[Tensor, Tensor] | None = None,
    tile: int = TILE,
) -> Classified:
    """The class that most of the k nearest gallery rows belong to, or -1 where even its nearest is not near enough.

    Of classes with equally many votes the one with the larger sum of similarities wins, then the one with the nearer
    row. The score is the similarity of the winner's nearest row among the k, so that a threshold of
    :func:`similis.retrieval.verification.verify` applies to it. A query is compared with the whole gallery, so the
    share of strangers accepted (:func:`open_set`) is larger than the false accept rate of one pair.

    Args:
        queries: (Q, D).
        gallery: (N, D), or prepared rows, as :func:`similis.retrieval.search.search` takes them.
        labels: (N,) class of each gallery row, 0 or more.
        k: voters, at most N are used.
        threshold: a score below it means unknown; None never does.
        similarity: "cosine" or "dot".
        ids: ids of queries and gallery: equal ones never meet, as in :func:`similis.retrieval.search.search`.
        groups: groups of queries and gallery: equal ones never meet.
        tile: similarities held at once.

    Shapes: (Q, D), (N, D), (N,) -> labels (Q,), scores (Q,); -1 and -inf where a query may meet nobody.

    Example:
        >>> gallery = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> queries = torch.tensor([[1.0, 0.1], [-1.0, 0.0]])
        >>> classify_vectors(queries, gallery, torch.tensor([7, 7, 5]), threshold=0.5).labels.tolist()
        [7, -1]
    """
    count = len(gallery.vectors if isinstance(gallery, GalleryRows) else gallery)
    if len(labels) != count or (len(labels) and int(labels.min()) < 0):
        raise UserError(f"{len(labels)} labels for a gallery of {count} given; give a label of 0 or more for each row")
    near = search(queries, gallery, k, similarity=similarity, ids=ids, groups=groups, tile=tile)
    return classify_neighbors(near, labels, threshold)


def classify_neighbors(near: Neighbors, labels: Tensor, threshold: float | None = None) -> Classified:
    """The same from neighbours that were found already, all of which vote.

    Args:
        near: (Q, k) of a search.
        labels: (N,) class of each gallery row.
        threshold: a score below it means unknown; None never does.

    Example:
        >>> near = Neighbors(torch.tensor([[2, 0]]), torch.tensor([[0.9, 0.8]]))
        >>> classify_neighbors(near, torch.tensor([5, 6, 7]), threshold=0.95).labels.tolist()
        [-1]
    """
    found = _vote(near, labels.to(near.index.device))
    if threshold is None:
        return found
    return found._replace(labels=torch.where(found.scores.double() >= threshold, found.labels, UNKNOWN))


def _vote(near: Neighbors, labels: Tensor) -> Classified:
    """The winner among neighbours in falling similarity."""
    there = near.index >= 0
    voter = torch.where(there, labels[near.index.clamp(min=0)], UNKNOWN)
    agree = (voter[:, :, None] == voter[:, None, :]) & there[:, None, :] & there[:, :, None]  # (Q, k, k)
    votes = agree.sum(dim=2)
    weight = torch.where(agree, near.similarity[:, None, :].double(), 0.0).sum(dim=2)
    most = votes == votes.amax(dim=1, keepdim=True)
    winner = torch.where(most & there, weight, -math.inf).argmax(dim=1, keepdim=True)  # of equal ones the nearest
    return Classified(voter.gather(1, winner)[:, 0], near.similarity.gather(1, winner)[:, 0])


def unknown_threshold(vectors: Tensor, labels: Tensor, accept: float | None = None, sample: int | None = None) -> float:
    r"""The score below which an answer is unknown, estimated within the gallery by asking it about itself.

    Every row asks as a stranger, as if its own class were not there, and as a friend, without itself:

    .. math:: s^-_i = \max_{y_j \ne y_i} \cos(x_i, x_j), \qquad s^+_i = \max_{j \ne i,\, y_j = y_i} \cos(x_i, x_j).

    With ``accept`` the threshold is the smallest number that at most this share of the :math:`s^-` reaches. Without it
    errors are balanced: the share of strangers that reach it is the nearest to the share of friends that do not. It
    suits galleries whose classes are what strangers will be like; :func:`open_set` measures it on real strangers.

    Args:
        vectors: (N, D) of the gallery.
        labels: (N,) with two classes or more; one with two rows or more where errors are balanced.
        accept: share of strangers that may be accepted, from 0 to 1; None for balanced errors.
        sample: how many rows ask; each still meets the whole gallery, so the cost is proportional to it. Rows are
            drawn with a fixed seed. None for all of them.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.1, 1.0]])
        >>> labels = torch.tensor([0, 1, 2, 2])
        >>> 0.8 < unknown_threshold(x, labels, 0.0) < 0.81, 0.8 < unknown_threshold(x, labels) < 1.0
        (True, True)
    """
    classes = len(torch.unique(labels))
    if classes < 2 or (accept is not None and not 0.0 <= accept <= 1.0):
        raise UserError(f"{classes} classes and accept={accept} given; give two classes or more, a share from 0 to 1")
    rows = torch.arange(len(labels))
    if sample is not None and sample < len(labels):
        rows = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))[:sample]
    near = search(vectors[rows], vectors, 1, groups=(labels[rows], labels))
    strangers = near.similarity[:, 0].double().sort().values
    candidates = torch.cat([strangers.new_tensor([-2.0]), strangers + ROUNDING])  # all accepted, or one fewer each
    accepted = 1.0 - torch.searchsorted(strangers, candidates).double() / len(strangers)  # at each candidate, falling
    friends = own_class_scores(vectors, labels, rows)
    if accept is not None or not len(friends):
        # at most this share; a gallery of single photos has no friends to refuse
        return float(candidates[accepted <= (0.05 if accept is None else accept) + 1e-12][0])
    refused = torch.searchsorted(friends, candidates).double() / len(friends)
    return float(candidates[(accepted - refused).abs().argmin()])


def own_class_scores(vectors: Tensor, labels: Tensor, rows: Tensor) -> Tensor:
    """Similarity of rows to the nearest other one of their class, in rising order; those without one are left out."""
    unit_rows = to_comparable(vectors)
    found = []
    for own in torch.unique(labels[rows]):
        members = (labels == own).nonzero().flatten()
        asking = rows[labels[rows] == own]
        if len(members) > 1:
            similarity = unit_rows[asking] @ unit_rows[members].T
            found.append(similarity.masked_fill_(asking[:, None] == members, -math.inf).amax(dim=1))
    return torch.cat(found).double().sort().values if found else torch.empty(0, dtype=torch.float64)


class OpenSet(NamedTuple):
    """How well a gallery with a threshold answers known and unknown queries; NaN where there are none.

    Attributes:
        unknown_accepted: share of the queries of classes outside the gallery that are given a label.
        known_refused: share of the queries of gallery classes that are called unknown.
        known_right: share of the queries of gallery classes that are given their own label.
        accepted_right: share of all queries with a label whose label is right.
    """

    unknown_accepted: Interval
    known_refused: Interval
    known_right: Interval
    accepted_right: Interval


def open_set(
    found: Classified, truth: Tensor, known: Tensor, *, share: float = 0.95, draws: int = DRAWS, seed: int = 0
) -> OpenSet:
    r"""Rates of an open-set classification, with intervals that resample the classes of the queries.

    With queries q of class :math:`y_q`, answers :math:`\hat y_q` and gallery classes :math:`Y`:

    .. math::
        P(\hat y \ne -1 \mid y \notin Y), \quad P(\hat y = -1 \mid y \in Y), \quad P(\hat y = y \mid y \in Y), \quad
        P(\hat y = y \mid \hat y \ne -1)

    The first and third are the false positive identification rate and the detection and identification rate of
    Phillips, Grother and Micheals (Evaluation Methods in Face Recognition, 2011).

    Args:
        found: see :func:`classify_vectors`.
        truth: (Q,) class of each query.
        known: classes of the gallery, in any order and repeated as you like.
        share: of the intervals that cover.
        draws: of the bootstrap.
        seed: of the draws.

    Example:
        >>> found = Classified(torch.tensor([3, -1, 4, -1, 3]), torch.tensor([0.9, 0.2, 0.8, 0.1, 0.7]))
        >>> rates = open_set(found, torch.tensor([3, 3, 4, 9, 8]), torch.tensor([3, 4]))
        >>> rates.unknown_accepted.value, round(rates.known_right.value, 3), round(rates.accepted_right.value, 3)
        (0.5, 0.667, 0.667)
    """
    answer, truth = found.labels.cpu(), truth.cpu()
    inside, accepted, right = torch.isin(truth, known.cpu()), answer != UNKNOWN, answer == truth

    def rate(event: Tensor, among: Tensor) -> Interval:
        count = len(torch.unique(truth[among]))
        if count > 1:
            return mean_interval(event[among].double(), truth[among], share=share, draws=draws, seed=seed)
        return Interval(float(event[among].double().mean()), math.nan, math.nan)  # one class says nothing of others

    return OpenSet(rate(accepted, ~inside), rate(~accepted, inside), rate(right, inside), rate(right, accepted))
