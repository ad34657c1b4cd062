"""The arithmetic of balanced batches: how often each class comes, in which batches, with which images.

Four steps, each exact: ``allot`` gives every class its number of places, ``spread`` divides the places
over batches so that no class is twice in a batch, ``mix`` makes that division random, ``deal`` hands
out images as from a deck of cards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from similis.data.sampling import Ints


class LabelGroups(NamedTuple):
    """Rows grouped by class (N,), where each class begins (C,), its size (C,)."""

    members: Ints
    starts: Ints
    sizes: Ints


def allot(sizes: Ints, each: int, batches: int, places: int, generator: np.random.Generator) -> Ints:
    """How many places every class gets, (C,): sum ``places``, none more than ``batches``.

    First one place for every class; then places that show ``each`` new images; then those that show
    fewer, most first; then repeats. So classes, and after them images, are covered as far as it goes.
    Where there are fewer places than classes, chance decides and not size: a preference for large classes
    would show more images in one epoch, and the small classes in none.

    Ties are broken by the generator; ``places`` is at most C * batches, and all sizes are positive.
    """
    given = np.zeros(len(sizes), dtype=np.int64)
    full = np.minimum(sizes // each, batches)
    partial = (sizes % each) * (full < batches)
    # Grouped by what a place shows: the first of each class, full ones, then each size of remainder.
    wishes = [np.ones_like(given), full - 1, *((full >= 1) & (partial == gain) for gain in range(each - 1, 0, -1))]
    for wish in wishes:
        left = places - int(given.sum())
        given += some(np.maximum(wish.astype(np.int64), 0), left, generator)
    while (left := places - int(given.sum())) > 0:
        given += some((given < batches).astype(np.int64), left, generator)
    return given


def some(wish: Ints, limit: int, generator: np.random.Generator) -> Ints:
    """The wish itself, or a random part of it that sums to the limit."""
    if int(wish.sum()) <= limit:
        return wish
    slots = np.repeat(np.arange(len(wish)), wish)
    chosen = slots[np.argsort(generator.random(len(slots)), kind="stable")[:limit]]
    return np.bincount(chosen, minlength=len(wish)).astype(np.int64)


def spread(given: Ints, batches: int, generator: np.random.Generator) -> Ints:
    """Class numbers (batches, P), P = sum / batches, no class twice in a row.

    Places of a class are dealt to consecutive batches in turn; a class has at most ``batches`` of them,
    so it never meets itself. Always possible, but orderly: :func:`mix` follows.
    """
    order = np.argsort(generator.random(len(given)), kind="stable")
    dealt = np.repeat(order, given[order]).reshape(-1, batches).T
    return mix(dealt, generator)


def mix(rows: Ints, generator: np.random.Generator) -> Ints:
    """Random exchange between batches that keeps every batch free of repeats and every class's number.

    In each round batches are paired at random; of what only one of the two holds, a random half goes
    to each (the curveball trade of Strona et al., Nature Communications 2014).
    """
    count, width = rows.shape
    half = count // 2
    rounds = 2 * int(np.ceil(np.log2(count + 1))) + 8 if half else 0
    for _ in range(rounds):
        order = np.argsort(generator.random(count), kind="stable")
        first, second = order[:half], order[half : 2 * half]
        both = np.sort(np.concatenate([rows[first], rows[second]], axis=1), axis=1)
        keys = generator.random(both.shape)
        twins = both[:, 1:] == both[:, :-1]  # of a class that both batches hold one copy goes to each
        keys[:, :-1][twins], keys[:, 1:][twins] = -1.0, 2.0
        traded = np.take_along_axis(both, np.argsort(keys, axis=1, kind="stable"), axis=1)
        rows = rows.copy()
        rows[first], rows[second] = traded[:, :width], traded[:, width:]
    return np.take_along_axis(rows, np.argsort(generator.random(rows.shape), axis=1, kind="stable"), axis=1)


def deal(classes: Ints, groups: LabelGroups, each: int, generator: np.random.Generator) -> Ints:
    """Rows (places, each): every place of a class takes the next ``each`` cards of its shuffled, endless deck.

    A window of K cards of a cyclic deck of n >= K cards holds no card twice; with n < K it holds all.
    """
    owner = np.repeat(np.arange(len(groups.sizes)), groups.sizes)
    decks = groups.members[np.lexsort((generator.random(len(owner)), owner))]
    cards = occurrence(classes)[:, None] * each + np.arange(each)
    return np.asarray(decks[groups.starts[classes][:, None] + cards % groups.sizes[classes][:, None]])


def occurrence(classes: Ints) -> Ints:
    """For every entry how many equal entries came before it."""
    order = np.argsort(classes, kind="stable")
    ordered = classes[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    runs = np.diff(np.r_[begins, len(classes)])
    before = np.empty(len(classes), dtype=np.int64)
    before[order] = np.arange(len(classes)) - np.repeat(begins, runs)
    return before


def group_by_label(labels: Ints) -> LabelGroups:
    """Rows by class, classes in the order of their ids."""
    _, numbers, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    members = np.argsort(numbers, kind="stable")
    return LabelGroups(members, np.cumsum(sizes) - sizes, sizes.astype(np.int64))
