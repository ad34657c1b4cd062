"""Faults of a data set, by a model's embeddings: copies, wrong labels, outliers, classes that look the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from similis.data.copies import make_copy, open_image, small_grey
from similis.data.manifest import Manifest
from similis.retrieval.duplicates import close_pairs, overlap
from similis.retrieval.similarity import to_comparable
from similis.retrieval.suspects import Votes, label_votes, nearest_samples, similar_classes, strangeness
from similis.values import Neighbors, UserError

SAMPLE = 256  # images whose copies set the cuts for duplicates
MISSED = 0.01  # share of these copies that the overlap may miss; the similarity, which only proposes, misses none
TOGETHER = 4096  # pairs whose pixels are compared at once
DOUBT = 0.95  # of a label from which it is listed to be excluded
STRANGE = 4.0  # robust standard deviations from which an image is listed to be excluded
LISTED = (0.5, 3.0)  # doubt and strangeness from which an image is listed at all

Encode = Callable[[Any], Tensor]  # of a data set, or of images
FaultKind = Literal["leak", "near-duplicate", "label", "stranger", "alike-classes"]


@dataclass(frozen=True)
class Fault:
    """Something that is probably wrong.

    Attributes:
        kind: ``leak`` (one image in train and in test), ``near-duplicate`` (in one part), ``label`` (the neighbours
            have another), ``stranger`` (like no class), ``alike-classes`` (two classes that look like one).
        score: larger is more certain; comparable within a kind.
        path: of the image.
        label: its class.
        other: path of the other image, or the other class; empty for a stranger.
        reason: in words.
        exclude: whether ``similis train --exclude`` leaves the image out.
        row: of the image in the data set.
        other_row: of the other image, or of one of the other class; -1 for a stranger.
    """

    kind: FaultKind
    score: float
    path: str
    label: str
    other: str
    reason: str
    exclude: bool
    row: int
    other_row: int


def find_faults(encode: Encode, data: Manifest) -> list[Fault]:
    """Every suspicion about a data set, ordered by kind and then by certainty.

    Args:
        encode: of the model whose embeddings compare the images; a pretrained network is enough.
        data: images with classes.

    Cost: one embedding of each image and N (N - 1) / 2 similarities in tiles; memory O(200 N).
    """
    if data.has("vector"):
        raise UserError(f"data set {data.name!r} holds ready vectors; give one of images")
    vectors = to_comparable(encode(data))
    near = nearest_samples(vectors)
    labels = torch.unique(data.labels, return_inverse=True)[1]  # in the order of data.class_names
    votes = label_votes(near, labels)
    found = [*copies(encode, data, vectors, near), *wrong_labels(data, near, votes)]
    return [*found, *strangers(data, strangeness(near, labels)), *merged_classes(data, labels, votes)]


def falling(scores: Tensor, least: float) -> list[tuple[int, float]]:
    """Places and values of the scores (N,) of at least so much, the largest first."""
    values, places = scores.sort(descending=True)
    return [found for found in zip(places.tolist(), values.tolist(), strict=True) if found[1] >= least]


def copy_cuts(encode: Encode, data: Manifest, vectors: Tensor) -> tuple[float, float]:
    """What copies of this data set's own images have: the least similarity, the overlap that 99 % of them reach."""
    generator = np.random.default_rng(0)
    rows = generator.permutation(len(data))[:SAMPLE].tolist()
    images = [open_image(data, row) for row in rows]
    twins = [make_copy(image, generator) for image in images]
    similarity = (vectors[rows] * to_comparable(encode(twins))).sum(dim=1)
    same = overlap(*(torch.stack([small_grey(image) for image in some]) for some in (images, twins)))
    return float(similarity.min()), float(same.quantile(MISSED))


def copies(encode: Encode, data: Manifest, vectors: Tensor, near: Neighbors) -> list[Fault]:
    """Pairs of images of which one is a cut of the other: leaks across parts, duplicates within one."""
    similar, same = copy_cuts(encode, data, vectors)
    pairs = close_pairs(near, similar)
    parts, paths, names = data.parts, data.values("path"), data.values("class_name")
    faults = []
    for place, score in falling(pair_overlap(data, pairs), same):
        first, second = sorted(pairs[place].tolist(), key=lambda row: parts[row] == "test")
        leak = parts[first] != parts[second]
        reason = (
            f"the images overlap with a correlation of {score:.3f}; {1 - MISSED:.0%} of true copies reach {same:.3f}"
        )
        out = leak or names[first] == names[second]  # a copy with two labels: check both
        kind: FaultKind = "leak" if leak else "near-duplicate"
        faults.append(Fault(kind, score, paths[first], names[first], paths[second], reason, out, first, second))
    return sorted(faults, key=lambda fault: fault.kind)


def pair_overlap(data: Manifest, pairs: Tensor) -> Tensor:
    """The overlap (P,) of the images of these pairs of rows (P, 2)."""
    if not len(pairs):
        return torch.empty(0)
    small = {row: small_grey(open_image(data, row)) for row in torch.unique(pairs).tolist()}
    parts = torch.split(pairs, TOGETHER)
    return torch.cat([overlap(*(torch.stack([small[n] for n in side]) for side in part.T.tolist())) for part in parts])


def wrong_labels(data: Manifest, near: Neighbors, votes: Votes) -> list[Fault]:
    """Images whose neighbours have another label, the most doubted first."""
    names, paths, classes = data.values("class_name"), data.values("path"), data.class_names
    faults = []
    for row, doubt in falling(votes.doubt, LISTED[0]):
        other = classes[int(votes.suggestion[row])]
        witness = next(n for n in near.index[row].tolist() if names[n] == other)
        reason = f"its neighbours have {1 - doubt:.3f} times as many votes for {names[row]!r} as for {other!r}"
        faults.append(Fault("label", doubt, paths[row], names[row], other, reason, doubt >= DOUBT, row, witness))
    return faults


def strangers(data: Manifest, strange: Tensor) -> list[Fault]:
    """Images that are like no class, the strangest first."""
    names, paths = data.values("class_name"), data.values("path")
    faults = []
    for row, score in falling(strange, LISTED[1]):
        reason = f"it is {score:.1f} robust standard deviations less like its nearest class than the median image"
        faults.append(Fault("stranger", score, paths[row], names[row], "", reason, score >= STRANGE, row, -1))
    return faults


def merged_classes(data: Manifest, labels: Tensor, votes: Votes) -> list[Fault]:
    """Pairs of classes that look like one; nothing of them is excluded."""
    paths, classes = data.values("path"), data.class_names
    faults = []
    for a, b, score in similar_classes(votes.shares):
        first, second = (int((labels == each).nonzero()[0]) for each in (a, b))
        reason = (
            f"neighbours give {classes[b]!r} {score:.2f} of the votes for the two, 0.5 where nothing tells them apart"
        )
        faults.append(Fault("alike-classes", score, paths[first], classes[a], classes[b], reason, False, first, second))
    return faults
