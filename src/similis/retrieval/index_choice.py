"""Which index: build each kind on your own vectors, measure it, keep the smallest that meets the target."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from similis.retrieval.index import Index, build_index
from similis.retrieval.index_kinds import KINDS
from similis.retrieval.search import search
from similis.retrieval.similarity import Similarity
from similis.values import UserError

K = 10  # neighbours that the recall is over
logger = logging.getLogger(__name__)


class Measured(NamedTuple):
    """A kind on these vectors, at the least effort that meets the recall or else at the highest."""

    kind: str
    effort: int
    rows: int
    bytes: float  # searched through for each vector
    build_seconds: float
    recall: float
    queries_per_second: float


class Target(NamedTuple):
    """What an index has to meet: recall@10 against exact search, and bytes of memory (None for any)."""

    recall: float
    memory: int | None = None

    def is_met(self, found: Measured, rows: int) -> bool:
        """Whether a kind that was measured meets the target with that many rows."""
        return found.recall >= self.recall and self.fits(found, rows)

    def fits(self, found: Measured, rows: int) -> bool:
        """Whether that many rows fit the memory."""
        return self.memory is None or found.bytes * rows <= self.memory


class Choice(NamedTuple):
    """The index that meets the target (None if none does), its measurement or the nearest one, and all of them."""

    made: Index | None
    best: Measured
    table: list[Measured]


def choose_index(
    vectors: Tensor,
    ids: Sequence[str] | None = None,
    labels: Sequence[str | None] | None = None,
    *,
    target: Target,
    kinds: Sequence[str] = tuple(KINDS),
    queries: int = 1000,
    sample: int = 100_000,
    similarity: Similarity = "cosine",
    model_hash: str = "",
) -> Choice:
    """Build the index with the fewest bytes, then the most queries a second, that meets a target.

    Queries are drawn from your vectors (with a fixed seed) and held out; exact search says what each should find. Every
    kind is measured on at most ``sample`` rows, the neighbours to be found among them. Those that meet the target there
    are built on all rows, the smallest first, until one meets it again. The held-out queries are added at the end.

    Args:
        vectors: (N, D).
        ids: (N,) unique; None for row numbers.
        labels: (N,) for searches among some labels.
        target: recall@10 and memory.
        kinds: to try; keys of ``KINDS``.
        queries: held out, at most a tenth of the vectors.
        sample: rows that every kind is measured on.
        similarity: "cosine" or "dot".
        model_hash: of the model that made the vectors.

    Example:
        >>> x = torch.randn(500, 32, generator=torch.Generator().manual_seed(0))
        >>> found = choose_index(x, target=Target(0.95), kinds=("flat", "int8"))
        >>> found.best.kind, len(found.made)
        ('int8', 500)
    """
    count = len(vectors)
    if count < 10 * K or not 0 < target.recall <= 1:
        raise UserError(
            f"{count} vectors and recall {target.recall:g} given; measuring needs {10 * K} vectors or more "
            "and a recall above 0, at most 1"
        )
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0), device="cpu")
    held, rest = order[: min(queries, count // 10)], order[min(queries, count // 10) :]
    whole = Trial(vectors[held], vectors[rest], target, similarity)
    trial = whole.sample(sample)
    table, best = [], None
    for kind in kinds:
        found = trial.attempt(kind)
        if found is None:
            continue
        table.append(found[1])
        if target.is_met(found[1], count) and (best is None or rank(found[1]) < rank(best[1])):
            best = found
    if trial is not whole:
        best = next(
            (
                made
                for one in sorted(table, key=rank)
                if target.is_met(one, count) and (made := whole.attempt(one.kind, check=True))
            ),
            None,
        )
    if best is None:
        return Choice(None, nearest(table, target, count), table)
    index, rows = best[0], torch.cat([rest, held]).tolist()
    names = [str(row) for row in rows] if ids is None else [ids[row] for row in rows]
    own = [None] * count if labels is None else [labels[row] for row in rows]
    done = Index(
        index.handle, names[: len(rest)], own[: len(rest)], kind=index.kind, effort=index.effort,
        similarity=similarity, model_hash=model_hash,
    )  # fmt: skip
    done.add(vectors[held], names[len(rest) :], own[len(rest) :])
    return Choice(done, best[1], table)


class Trial:
    """Held-out queries (Q, D), the vectors (N, D) they are asked of, and the exact answers."""

    def __init__(self, queries: Tensor, vectors: Tensor, target: Target, similarity: Similarity) -> None:
        self.queries, self.vectors, self.target, self.similarity = queries, vectors, target, similarity
        self.exact = search(queries, vectors, K, similarity=similarity).index

    def sample(self, count: int) -> Trial:
        """The same queries with at most ``count`` vectors, the exact neighbours of every query among them."""
        if count >= len(self.vectors):
            return self
        wanted = torch.zeros(len(self.vectors), dtype=torch.bool, device=self.vectors.device)
        wanted[self.exact[self.exact >= 0]] = True
        rows = torch.cat([wanted.nonzero()[:, 0], (~wanted).nonzero()[:, 0]])[: max(count, int(wanted.sum()))]
        return Trial(self.queries, self.vectors[rows], self.target, self.similarity)

    def attempt(self, kind: str, *, check: bool = False) -> tuple[Index, Measured] | None:
        """Build and measure a kind; None if it cannot be built, or with ``check`` if it misses the target."""
        begin = time.perf_counter()
        try:
            index = build_index(self.vectors, kind=kind, similarity=self.similarity)
        except UserError as error:
            if kind not in KINDS:
                raise
            logger.warning("%s is left out: %s", kind, error)
            return None
        seconds = time.perf_counter() - begin
        for effort in KINDS[kind].efforts:
            index.effort = effort
            recall = recall_of(index.search(self.queries, K).index, self.exact)
            if recall >= self.target.recall:
                break
        begin = time.perf_counter()
        index.search(self.queries, K)
        speed = len(self.queries) / (time.perf_counter() - begin)
        count = len(self.vectors)
        found = Measured(kind, effort, count, index.memory() / count, seconds, recall, speed)
        return None if check and not self.target.is_met(found, count) else (index, found)


def recall_of(found: Tensor, exact: Tensor) -> float:
    """The share of the exact neighbours (Q, K) that were found (Q, K).

    Example:
        >>> recall_of(torch.tensor([[3, 1]]), torch.tensor([[1, 2]]))
        0.5
    """
    hits = (found[:, :, None] == exact[:, None, :]) & (exact[:, None, :] >= 0)
    return float(hits.sum() / (exact >= 0).sum())


def rank(found: Measured) -> tuple[float, float]:
    """Fewer bytes first, then more queries a second."""
    return found.bytes, -found.queries_per_second


def nearest(table: Sequence[Measured], target: Target, rows: int) -> Measured:
    """Of the kinds that fit the memory the one with the highest recall; without one, the smallest."""
    fitting = [one for one in table if target.fits(one, rows)]
    return max(fitting, key=lambda one: one.recall) if fitting else min(table, key=rank)
