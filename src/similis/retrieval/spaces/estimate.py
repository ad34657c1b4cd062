r"""What another model would give on a collection, from a sample of its items that both models have embedded.

The old vectors of all items are known, the new ones only of a sample. Recall in a sample is too high, because fewer
items can be confused. How much too high is known exactly for the old model, and is carried over on the probit scale:

.. math:: \Phi^{-1}(\hat m_{new}) = \Phi^{-1}(m_{new}^{sample}) + \Phi^{-1}(m_{old}) - \Phi^{-1}(m_{old}^{sample})
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from similis.retrieval.evaluate import evaluate
from similis.retrieval.gallery import Contents
from similis.retrieval.intervals import Interval
from similis.retrieval.spaces.space_map import choose_kind, fit_map
from similis.sphere import unit
from similis.values import Embedded, UserError

METRICS = ("recall@1", "map@r")
NORMAL = 1.96  # standard errors, for 95 %
FOLDS = 5  # parts of the sample whose map was fitted on the others
SHARES = (0.125, 0.25, 0.5, 1.0)  # of the sample, for the curve
GROUPS = 40  # of the jackknife
DOUBT = 0.2  # standard error of what is carried over, as a share of it; measured on the pairs of benchmarks/upgrades.py
WORTH = 0.01  # gain of R@1 below which a full pass does not pay


class Row(NamedTuple):
    """What was measured or predicted: its name, and R@1 and MAP@R, with 95 % intervals for this collection if known."""

    name: str
    recall: Interval
    map_r: Interval


class Rates(NamedTuple):
    """Pairs of different classes called the same: at today's threshold in both spaces, and the threshold that keeps."""

    threshold: float
    before: float
    after: float
    keeps: float


class Estimate(NamedTuple):
    """Rows for the old model, for new queries through maps from parts of the sample, and for the new model."""

    old: Row
    mapped: list[Row]
    new: Row
    gain: Interval
    kind: str
    rates: Rates


def estimate(old: Tensor, labels: Tensor, rows: Tensor, new: Tensor, threshold: float, *, seed: int = 0) -> Estimate:
    """Predict R@1 and MAP@R of a new model on a collection.

    Args:
        old: (N, D) vectors of all labelled items by the old model.
        labels: (N,).
        rows: (n,) the sample, drawn evenly from the items.
        new: (n, E) vectors of the sample by the new model.
        threshold: similarity from which two items count as the same today.
        seed: of folds and parts.

    Example:
        >>> draw = torch.Generator().manual_seed(0)
        >>> labels = torch.arange(400) % 20
        >>> x = torch.randn(20, 8, generator=draw)[labels] + torch.randn(400, 8, generator=draw)
        >>> found = estimate(x, labels, torch.arange(0, 400, 2), x[::2], 0.5)
        >>> abs(found.new.recall.value - found.old.recall.value) < 0.01
        True
    """
    if len(rows) < 10 * FOLDS or len(torch.unique(labels[rows])) < 2:
        raise UserError(f"a sample of {len(rows)} items given; give {10 * FOLDS} or more, of two classes or more")
    old, new = unit(old), unit(new)
    whole, share = measure(old, labels), len(rows) / len(labels)
    before, after = measure(old[rows], labels[rows]), measure(new, labels[rows])
    exact = [float(each.nanmean()) for each in whole]
    carried = [carry_over(torch.stack(pair, 1), known) for *pair, known in zip(after, before, exact, strict=True)]
    # queries that are not drawn, and neighbours that are drawn with probability ``share``: (1 - f) + f (1 - f)
    drawn, moved = carried[0][1] * math.sqrt(max(0.0, 1 - share**2)), carried[0][0] - float(after[0].nanmean())
    error = math.hypot(drawn, DOUBT * moved)
    first = Row("old model", *(Interval(value, value, value) for value in exact))
    # intervals of MAP@R that were tried held in two thirds of the samples, so there is none
    last = Row("new model", around(carried[0][0], error), around(carried[1][0], 0.0))
    kind, mapped = mapped_rows(old, labels, rows, new, seed)
    gain = Interval(*(part - exact[0] for part in last.recall))
    return Estimate(first, mapped, last, gain, kind, compare_rates(old[rows], new, labels[rows], threshold))


def estimate_gallery(held: Contents, contents: Sequence[str], new: Tensor, threshold: float) -> Estimate:
    """The same for a gallery, by new vectors (n, E) of images with these hashes; others are left out."""
    vectors, labels, _ = held.labelled_vectors()
    digests = (entry.digest for entry in held.entries if entry.label is not None)
    places = {digest: row for row, digest in enumerate(digests) if digest}
    known = [row for row, digest in enumerate(contents) if digest in places]
    return estimate(vectors, labels, torch.tensor([places[contents[row]] for row in known]), new[known], threshold)


def measure(vectors: Tensor, labels: Tensor) -> list[Tensor]:
    """R@1 and MAP@R of every row (N,) among the others; NaN where none of its class is there."""
    found = evaluate(vectors, labels, ks=(1,)).per_query
    return [found[name] for name in METRICS]


def carry_over(pairs: Tensor, exact: float) -> tuple[float, float]:
    """A new value at full size and its standard error, from new and old values in the sample (n, 2)."""
    pairs = pairs[~pairs.isnan().any(1)].double()
    value = shift(pairs.mean(0), exact)
    groups = min(GROUPS, len(pairs))
    parts = torch.arange(len(pairs), device=pairs.device) % groups
    left = torch.tensor([shift(pairs[parts != part].mean(0), exact) for part in range(groups)], dtype=torch.float64)
    return value, math.sqrt((groups - 1) / groups * float((left - left.mean()).square().sum()))


def shift(means: Tensor, exact: float) -> float:
    """The new mean moved by what the old mean moves from the sample to its exact value, on the probit scale."""
    low = 1e-4
    after, before, known = (float(torch.special.ndtri(value.clamp(low, 1 - low)))
                            for value in (*means, means.new_tensor(exact)))  # fmt: skip
    return float(torch.special.ndtr(means.new_tensor(after + known - before)))


def around(value: float, error: float) -> Interval:
    """A value with its 95 % interval, within 0 and 1."""
    return Interval(value, max(0.0, value - NORMAL * error), min(1.0, value + NORMAL * error))


def mapped_rows(old: Tensor, labels: Tensor, rows: Tensor, new: Tensor, seed: int) -> tuple[str, list[Row]]:
    """New queries on the old vectors through maps that were fitted on a part of the sample without them."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed), device="cpu").to(rows.device)
    kind, found = choose_kind(new, old[rows], labels[rows]), []
    for share in SHARES:
        count = round(share * len(rows))
        asked, vectors = order[count:], torch.empty(0)
        if count < len(rows):
            vectors = fit_map(kind, new[order[:count]], old[rows[order[:count]]])(new[asked])
        else:
            asked, folds = order, torch.arange(len(order), device=order.device) % FOLDS
            vectors = old.new_empty(len(order), old.shape[1])
            for fold in range(FOLDS):
                rest = order[folds != fold]
                vectors[folds == fold] = fit_map(kind, new[rest], old[rows[rest]])(new[order[folds == fold]])
        scores = search_old(old, labels, rows[asked], vectors)
        name = f"new queries, map from {count:,} items ({100 * count / len(labels):.0f} %)"
        found.append(Row(name, *(mean_of(each, len(labels) - count) for each in scores)))
    return kind, found


def search_old(old: Tensor, labels: Tensor, asked: Tensor, vectors: Tensor) -> list[Tensor]:
    """R@1 and MAP@R of queries in place of the items ``asked``, which they do not find themselves."""
    both = torch.cat([old, vectors])
    ids = torch.cat([torch.arange(len(old)), asked])
    answers = torch.arange(len(both)) < len(old)
    found = evaluate(
        Embedded(both, torch.cat([labels, labels[asked]]), ids), ks=(1,), queries=~answers, gallery=answers,
    ).per_query  # fmt: skip
    return [found[name] for name in METRICS]


def mean_of(values: Tensor, others: int) -> Interval:
    """The mean over as many other items, predicted from those of a sample (n,)."""
    kept = values[~values.isnan()].double()
    error = float(kept.std()) * math.sqrt(1 / len(kept) + (1 / others if others else 0))
    return around(float(kept.mean()), error)


def compare_rates(old: Tensor, new: Tensor, labels: Tensor, threshold: float) -> Rates:
    """False accepts of pairs of the sample in both spaces, and the threshold of the new one that keeps the rate."""
    above = torch.triu(labels[:, None] != labels, diagonal=1)
    pairs, news = (old @ old.T)[above], (new @ new.T)[above]
    rate = float((pairs >= threshold).double().mean())
    place = max(0, math.ceil(rate * len(news)) - 1)
    keeps = float(news.topk(place + 1).values[-1]) if rate else float(news.max())
    return Rates(threshold, rate, float((news >= threshold).double().mean()), keeps)


def advise(found: Estimate) -> str:
    """One sentence: stay, switch now, or embed first.

    "Stay" below a gain of ``WORTH`` or where it is not significant; "switch now" where new queries through the map
    already do as well as the old model does.
    """
    mapped = found.mapped[-1].recall.value
    gain = " to ".join(f"{100 * part:+.1f}" for part in found.gain[1:])
    points = f"R@1 {100 * found.gain.value:+.1f} points (95 % interval {gain})"
    if found.gain.low <= 0:
        worse = "is worse" if found.gain.high < 0 else "shows no significant gain"
        return f"Stay: the new model {worse} on this collection, {points}."
    if found.gain.value < WORTH:
        return f"Stay: the new model gains only {points}."
    if mapped >= found.old.recall.value:
        return f"Switch now: the new model gains {points}, and its queries through the map already find as much."
    lost = f"{100 * (found.old.recall.value - mapped):.1f} points less than today"
    return f"Embed first: the new model gains {points}, but its queries through the map find {lost}."
