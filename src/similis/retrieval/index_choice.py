"""Which index: build each kind on your own vectors, measure it, keep the smallest that meets the target."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from similis.retrieval.index import as_rows, score_again, search_exactly
from similis.retrieval.index_build import build_codes, draw_rows, take_rows
from similis.retrieval.index_kinds import KINDS, Array, count_bytes, search_codes
from similis.values import UserError

K = 10  # neighbours that the recall is over
ONE_SIDED = 1.645  # standard errors, for 19 of 20
logger = logging.getLogger(__name__)


class Measured(NamedTuple):
    """A kind on these vectors, at the least effort that meets the recall or else at the highest.

    ``lower`` is the recall that 19 of 20 fresh draws of as many queries reach, see :func:`lower_bound`.
    """

    kind: str
    effort: int
    rows: int
    bytes: float  # searched through for each vector
    build_seconds: float
    recall: float
    lower: float
    queries_per_second: float


class Target(NamedTuple):
    """What an index has to meet: recall@10 against exact search, and bytes of memory (None for any)."""

    recall: float
    memory: int | None = None

    def is_met(self, found: Measured, rows: int) -> bool:
        """Whether a kind that was measured meets the target with that many rows."""
        return found.lower >= self.recall and self.fits(found, rows)

    def fits(self, found: Measured, rows: int) -> bool:
        """Whether that many rows fit the memory."""
        return self.memory is None or found.bytes * rows <= self.memory


class Choice(NamedTuple):
    """The codes that meet the target, their measurement (or the nearest one), whether it is met, and all of them."""

    codes: Any
    best: Measured
    met: bool
    table: list[Measured]


def choose_codes(
    rows: Any,
    *,
    target: Target,
    kinds: Sequence[str] = tuple(KINDS),
    queries: int = 1000,
    sample: int = 100_000,
    build: Callable[[str, Any], Any] = build_codes,
) -> Choice:
    """Codes with the fewest bytes, then the most queries a second, that meet a target.

    Queries are drawn from the vectors with a fixed seed, and each is kept from finding itself; exact search says what
    it should find. Every kind is measured on at most ``sample`` rows, the neighbours to be found among them. Those that
    meet the target there are built on all rows, the smallest first, until one meets it again. The recall that counts is
    a lower bound: what 19 of 20 fresh draws of as many queries reach.

    Args:
        rows: (N, D) as they are compared: an array, or a :class:`similis.retrieval.index_build.RowFile`.
        target: recall@10 and memory.
        kinds: to try; keys of ``KINDS``.
        queries: at most a tenth of the vectors.
        sample: rows that every kind is measured on.
        build: makes codes of a kind for all rows.

    Example:
        >>> x = np.random.default_rng(0).standard_normal((500, 32), dtype=np.float32)
        >>> choose_codes(x, target=Target(0.95), kinds=("flat", "int8")).best.kind
        'int8'
    """
    count = rows.shape[0]
    if count < 10 * K or not 0 < target.recall <= 1:
        raise UserError(
            f"{count} vectors and recall {target.recall:g} given; measuring needs {10 * K} vectors or more "
            "and a recall above 0, at most 1"
        )
    whole = draw_trial(rows, min(queries, count // 10), target)
    trial, table, best = whole.sample(sample), [], None
    for kind in kinds:
        found = trial.attempt(kind, build if trial is whole else build_codes)
        if found is None:
            continue
        table.append(found[1])
        if target.is_met(found[1], count) and (best is None or rank(found[1]) < rank(best[1])):
            best = found
    if trial is not whole:
        enough = (one for one in sorted(table, key=rank) if target.is_met(one, count))
        tried = (whole.attempt(one.kind, build) for one in enough)
        best = next((made for made in tried if made is not None and target.is_met(made[1], count)), None)
    if best is None:
        return Choice(None, nearest(table, target, count), False, table)
    return Choice(*best, True, table)


class Trial(NamedTuple):
    """Rows (N, D) as they are compared, some of them as queries (Q, D) with their numbers (Q,), and exact answers."""

    rows: Any
    queries: Array
    own: Tensor
    exact: Tensor
    target: Target

    def sample(self, count: int) -> Trial:
        """The same queries with about ``count`` rows, the exact neighbours of every query among them."""
        total = self.rows.shape[0]
        if count >= total:
            return self
        wanted = np.unique(torch.cat([self.exact[self.exact >= 0], self.own]).numpy())
        others = np.setdiff1d(draw_rows(total, count + len(wanted), seed=1), wanted)
        others = others[draw_rows(len(others), max(0, count - len(wanted)), seed=2)]
        chosen = np.sort(np.concatenate([wanted, others]))
        own, exact = (torch.from_numpy(np.searchsorted(chosen, rows.numpy())) for rows in (self.own, self.exact))
        exact = torch.where(self.exact < 0, -1, exact)
        return Trial(take_rows(self.rows, chosen), self.queries, own, exact, self.target)

    def attempt(self, kind: str, build: Callable[[str, Any], Any]) -> tuple[Any, Measured] | None:
        """Codes of a kind and what they reach; None if it cannot be built."""
        begin, (count, dim) = time.perf_counter(), self.rows.shape
        try:
            codes = build(kind, self.rows)
        except UserError as error:
            if kind not in KINDS:
                raise
            logger.warning("%s is left out: %s", kind, error)
            return None
        seconds = time.perf_counter() - begin
        for effort in KINDS[kind].efforts:
            recalls = recall_of(self.find(codes, kind, effort), self.exact)
            recall, lower = float(recalls.mean()), lower_bound(recalls)
            if lower >= self.target.recall:
                break
        begin = time.perf_counter()
        self.find(codes, kind, effort)
        speed = len(self.queries) / (time.perf_counter() - begin)
        size = 4 * dim if codes is None else count_bytes(codes) / count
        return codes, Measured(kind, effort, count, size, seconds, recall, lower, speed)

    def find(self, codes: Any, kind: str, effort: int) -> Tensor:
        """The neighbours (Q, K) that codes find, without the queries themselves."""
        if codes is None:
            return without_own(search_exactly(self.queries, self.rows, K + 1).index, self.own)
        found = torch.from_numpy(search_codes(codes, kind, effort, self.queries, K + 1, allowed=None))
        return without_own(
            score_again(torch.from_numpy(self.queries), as_rows(self.rows), found, K + 1).index, self.own
        )


def draw_trial(rows: Any, queries: int, target: Target, seed: int = 0) -> Trial:
    """So many of the rows as queries, and what each of them should find."""
    own = draw_rows(rows.shape[0], queries, seed)
    asked, numbers = take_rows(rows, own), torch.from_numpy(own)
    return Trial(rows, asked, numbers, without_own(search_exactly(asked, rows, K + 1).index, numbers), target)


def without_own(found: Tensor, own: Tensor) -> Tensor:
    """Neighbours (Q, K) of K + 1: without the query itself, or the last where it is not among them."""
    order = (found == own[:, None]).int().argsort(dim=1, stable=True)
    return found.gather(1, order)[:, :-1]


def lower_bound(recalls: Tensor) -> float:
    """The mean that 19 of 20 fresh draws of as many queries reach, by the spread of these (Q,).

    Both draws vary: 1.645 standard errors for these queries, which may be lucky, and as many for the fresh ones.

    Example:
        >>> round(lower_bound(torch.tensor([1.0, 1.0, 1.0, 0.8])), 2)
        0.79
    """
    spread = float(recalls.std()) * 2 / math.sqrt(len(recalls)) if len(recalls) > 1 else 0.0
    return float(recalls.mean()) - ONE_SIDED * spread


def recall_of(found: Tensor, exact: Tensor) -> Tensor:
    """For each query the share (Q,) of its exact neighbours (Q, K) that were found (Q, K).

    Example:
        >>> recall_of(torch.tensor([[3, 1]]), torch.tensor([[1, 2]])).tolist()
        [0.5]
    """
    hits = (found[:, :, None] == exact[:, None, :]) & (exact[:, None, :] >= 0)
    return hits.sum((1, 2)) / (exact >= 0).sum(1)


def rank(found: Measured) -> tuple[float, float]:
    """Fewer bytes first, then more queries a second."""
    return found.bytes, -found.queries_per_second


def nearest(table: Sequence[Measured], target: Target, rows: int) -> Measured:
    """Of the kinds that fit the memory the one with the highest recall; without one, the smallest."""
    fitting = [one for one in table if target.fits(one, rows)]
    return max(fitting, key=lambda one: one.recall) if fitting else min(table, key=rank)
