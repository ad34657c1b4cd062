"""Exact neighbours by way of bfloat16: a rough product proposes, a bound certifies, float32 scores again."""

from __future__ import annotations

import math
import time
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from similis.retrieval.similarity import TILE

MOST = 100  # neighbours up to which scoring again costs little beside the product
SPARE = 32  # candidates beyond the neighbours that are asked for, at least
PROBE = (256, 4096)  # queries and gallery rows of the measurement
WORTH = 0.75  # of the time of float32, from which bfloat16 is chosen
ROUNDING = 2.0**-8  # of bfloat16, relative
SINGLE = 2.0**-24  # of float32, relative


class RoughRows(NamedTuple):
    """A gallery (G, D) in bfloat16, the largest norm of a row, and the largest norm of what rounding took of a row."""

    vectors: Tensor
    longest: Tensor
    lost: Tensor


def rough_rows(vectors: Tensor) -> RoughRows:
    """Round the rows of a gallery.

    Shapes: (G, D) -> (G, D), (), ().
    """
    rough = vectors.bfloat16()
    return RoughRows(rough, vectors.norm(dim=1).max(), (vectors - rough.float()).norm(dim=1).max())


def error_bound(queries: Tensor, gallery: RoughRows) -> Tensor:
    r"""How far a rough similarity of each query is from the exact one, at most (q, 1).

    With :math:`\hat x` for x in bfloat16, Cauchy and Schwarz give
    :math:`|xy - \hat x \hat y| \le \|x - \hat x\| \|y\| + \|\hat x\| \|y - \hat y\|`. Sums of D products in float32 add
    :math:`D 2^{-24} \|\hat x\| \|\hat y\|`, the rounding of the result :math:`2^{-8}` of its size.
    """
    rough = queries.bfloat16().float()
    norm = rough.norm(dim=1, keepdim=True)
    taken = (queries - rough).norm(dim=1, keepdim=True)
    reach = norm * (gallery.longest + gallery.lost)
    total: Tensor = taken * gallery.longest + norm * gallery.lost + reach * (ROUNDING + queries.shape[1] * SINGLE)
    return total


def certify(rough: Tensor, queries: Tensor, gallery: Tensor, rows: RoughRows, k: int) -> tuple[Tensor, Tensor, Tensor]:
    r"""Similarities and columns (q, k) of the nearest rows, and which queries (q,) are certain.

    The set is certain if the last candidate, raised by the bound, is below the k-th neighbour: no row beside the
    candidates can be nearer. The order is certain if neighbours differ by more than
    :math:`4 \sqrt D 2^{-24} \|x\| \|y\|`, what two float32 products of either side differ by when roundings are
    random (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019). Rows that are equal or
    nearly so leave a query uncertain.

    Args:
        rough: (q, G) rough similarities, -inf where a query may not look.
        queries: (q, D) in float32.
        gallery: (G, D) in float32.
        rows: of :func:`rough_rows`.
        k: how many; k + SPARE is below G.
    """
    proposed = rough.topk(k + max(k, SPARE), dim=1)
    columns, never = proposed.indices, float("-inf")
    scores = score_again(queries, gallery, columns).masked_fill(proposed.values == never, never)
    values, order = scores.sort(dim=1, descending=True)
    slack = 4 * math.sqrt(queries.shape[1]) * SINGLE * queries.norm(dim=1, keepdim=True) * rows.longest
    certain = values[:, k - 1 : k] - slack > proposed.values[:, -1:].float() + error_bound(queries, rows)
    apart = values[:, :k] - values[:, 1 : k + 1] > slack
    return values[:, :k], columns.gather(1, order[:, :k]), (certain & apart).all(dim=1)


def score_again(queries: Tensor, gallery: Tensor, columns: Tensor) -> Tensor:
    """Inner products (q, c) of each query (q, D) with the gallery rows that its columns (q, c) name."""
    step = max(1, TILE // (columns.shape[1] * queries.shape[1]))
    parts = zip(torch.split(queries, step), torch.split(columns, step), strict=True)
    return torch.cat([torch.einsum("qd,qcd->qc", x, gallery[places]) for x, places in parts])


@lru_cache(maxsize=64)
def prefers_bfloat16(dim: int, device: str) -> bool:
    """Whether this machine multiplies bfloat16 so much faster than float32 that scoring again pays; measured once."""
    chance = torch.Generator().manual_seed(0)
    left, right = (torch.randn(rows, dim, generator=chance).to(device) for rows in PROBE)
    plain, rough = _seconds(left, right, 3), (left.bfloat16(), right.bfloat16())
    return _seconds(*rough, 1) < 10 * plain and _seconds(*rough, 3) < WORTH * plain  # without instructions: very slow


def _seconds(left: Tensor, right: Tensor, times: int) -> float:
    """The least of several times of a product; one value of it is read, so that a device has to finish."""
    least = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        float((left @ right.T)[-1, -1])
        least = min(least, time.perf_counter() - begin)
    return least
