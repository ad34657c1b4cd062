"""Verification: decide whether two images show the same class by a threshold on their similarity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from similis.retrieval.embed import as_embedded
from similis.retrieval.intervals import DRAWS, Bounds, Interval, class_bootstrap
from similis.retrieval.pair_similarities import (
    PAIR_TILE,
    count_upper,
    labelled_pairs,
    similarity_histogram,
    thresholds_and_eer,
)
from similis.retrieval.threshold_rates import Accepted, at_rates, count_accepted, equal_error, opis, rates
from similis.values import Embedded, Pairs, UserError

FARS = (1e-2, 1e-3, 1e-4)
OPIS_FARS = (1e-2, 1e-1)
PER_DECADE, DECADES = 16, 6  # of the curve
ROUNDING = 1 + 1e-12


@dataclass(frozen=True, eq=False)
class Verification:
    """What thresholds on the similarity do to all pairs; similarities at or above a threshold are accepted.

    Attributes:
        far: false accept rate of the operating point.
        threshold: false accept rate -> the lowest threshold that keeps it on these classes, with its interval.
        tar: false accept rate -> true accept rate at that threshold.
        eer: equal error rate, and its threshold in ``eer_threshold``.
        opis: inconsistency of the classes between the FARs 0.01 and 0.1; NaN with too few impostor pairs.
        genuine, impostors: numbers of pairs.
        classes: (K,) labels; numbers in the order of first appearance where labels are no integers.
        class_threshold: (K,) the threshold that each class alone would need for ``far``; NaN without impostors.
        class_tar: (K,) true accept rate of each class at the threshold of all; NaN without genuine pairs.
        roc_far, roc: (F,) false accept rates, and the true accept rates there.
        similarity, counts: (M,) similarities to ten binary digits, and (2, M) genuine and impostor pairs with them.
    """

    far: float
    threshold: Mapping[float, Interval]
    tar: Mapping[float, Interval]
    eer: Interval
    eer_threshold: float
    opis: float
    genuine: int
    impostors: int
    classes: Tensor
    class_threshold: Tensor
    class_tar: Tensor
    roc_far: Tensor
    roc: Bounds
    similarity: Tensor
    counts: Tensor


def verify(
    embedded: Embedded | Tensor,
    labels: Any = None,
    *,
    far: float = 1e-3,
    fars: tuple[float, ...] = FARS,
    groups: Any = None,
    pairs: Pairs | None = None,
    share: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
    tile: int = PAIR_TILE,
) -> Verification:
    r"""Verification figures of an embedding, with intervals for other classes of the same population.

    .. math::
        \mathrm{FAR}(t) = \frac{\#\{\text{impostor pairs with } s \ge t\}}{\#\{\text{impostor pairs}\}}, \quad
        \mathrm{TAR}(t) = \frac{\#\{\text{genuine pairs with } s \ge t\}}{\#\{\text{genuine pairs}\}}

    Every pair of different images counts once. The threshold of a FAR is the lowest that does not exceed it, so a
    genuine pair as similar as a refused impostor is refused. Thresholds, TAR, EER and OPIS are exact for cosines in
    float32; all pairs are compared in tiles, four times. Intervals resample classes
    (:func:`similis.retrieval.intervals.class_bootstrap`, :func:`similis.retrieval.threshold_rates.rates`) and
    interpolate between 16 thresholds for each decade of FAR. A rate below one impostor pair is left out.

    Use classes that the model was not trained on: a threshold chosen on training classes comes out too low.

    Args:
        embedded: vectors (N, D) with their labels and ids, as :func:`similis.embed` returns them, or a tensor (N, D).
        labels: (N,) of a tensor; None otherwise.
        far: of the operating point.
        fars: that are reported beside it.
        groups: (N,) camera, session or photographer; two images of one group are not compared.
        pairs: rows of genuine and impostor pairs; None for all pairs.
        share: of the intervals that cover.
        draws: of the bootstrap.
        seed: of the draws.
        tile: similarities held at once.

    Shapes: vectors (N, D), labels (N,); results over K classes and F rates.

    Example:
        >>> labels = torch.arange(40) % 8
        >>> vectors = torch.eye(8)[labels] + 0.3 * torch.randn(40, 8, generator=torch.Generator().manual_seed(0))
        >>> found = verify(Embedded(vectors, labels, torch.arange(40)), far=1e-2, fars=(1e-1,))
        >>> found.genuine, found.impostors, sorted(found.tar)
        (80, 700, [0.01, 0.1])
    """
    given = as_embedded(embedded, labels)
    compared = labelled_pairs(given, groups=groups, pairs=pairs, tile=tile)
    totals = count_upper(compared)
    if not 0.0 < far < 1.0 or far * totals.impostors < 1:
        raise UserError(
            f"far={far:g} given with {totals.impostors} impostor pairs; a rate needs to lie between "
            f"{1 / totals.impostors:.1g} (one pair) and 1: raise it, or give more images"
        )
    wanted = _rates_of_interest({far, *fars}, totals.impostors)
    allowed = (wanted * totals.impostors * ROUNDING).floor().long()  # a product just below a whole number is that
    thresholds, eer, eer_threshold = thresholds_and_eer(compared, totals, allowed)
    thresholds = thresholds.cpu()
    accepted = count_accepted(compared, thresholds)
    found = class_bootstrap(
        lambda times: _statistics(times, accepted, thresholds, wanted),
        accepted.genuine[:, -1],
        share=share,
        draws=draws,
        seed=seed,
    )
    roc, own, equal = (
        Bounds(*parts) for parts in zip(*(torch.split(part, len(wanted)) for part in found), strict=True)
    )
    roc = roc._replace(value=accepted.genuine[:, :-1].sum(0) / accepted.genuine[:, -1].sum())
    own = own._replace(value=thresholds)
    place = {rate: number for number, rate in enumerate(wanted.tolist())}
    reported = [rate for rate in sorted({far, *fars}) if rate in place]
    similarity, counts = similarity_histogram(totals)
    return Verification(
        far=far,
        threshold={rate: own.interval(place[rate]) for rate in reported},
        tar={rate: roc.interval(place[rate]) for rate in reported},
        eer=equal.interval()._replace(value=eer),
        eer_threshold=eer_threshold,
        opis=opis(compared, *(float(thresholds[place[rate]]) for rate in OPIS_FARS[::-1]))
        if OPIS_FARS[0] in place
        else math.nan,
        genuine=totals.genuine,
        impostors=totals.impostors,
        classes=compared.names.cpu(),
        class_threshold=_class_thresholds(accepted, thresholds, far),
        class_tar=accepted.genuine[:, place[far]] / accepted.genuine[:, -1],
        roc_far=wanted,
        roc=roc,
        similarity=similarity,
        counts=counts,
    )


def _rates_of_interest(asked: set[float], impostors: int) -> Tensor:
    """0, the asked rates and those of the curve (F,), rising; none below one impostor pair."""
    curve = {float(f"{10 ** (-step / PER_DECADE):.6g}") for step in range(PER_DECADE * DECADES + 1)}
    rates = [rate for rate in sorted(asked | curve) if rate * impostors * ROUNDING >= 1]
    return torch.tensor([0.0, *rates], dtype=torch.float64, device="cpu")


def _statistics(times: Tensor, accepted: Accepted, thresholds: Tensor, wanted: Tensor) -> Tensor:
    """TAR and threshold at the rates wanted, and the EER (R, 2 F + 1)."""
    far, tar = rates(times, accepted)
    own = thresholds.expand_as(far)
    return torch.cat([at_rates(far, tar, wanted), at_rates(far, own, wanted), equal_error(far, tar)[:, None]], dim=1)


def _class_thresholds(accepted: Accepted, thresholds: Tensor, far: float) -> Tensor:
    """The threshold (K,) at which the impostors of each class are accepted at this rate, interpolated."""
    own = accepted.impostors[:, :-1] / accepted.impostors[:, -1:]
    return at_rates(own, thresholds.expand_as(own), own.new_tensor([far]))[:, 0]
