"""The only module that imports faiss: kinds of indexes, how each is built, searched, measured and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from similis.registry import unknown
from similis.values import UserError, import_extra

Array = np.ndarray[Any, Any]
LADDER = (1, 2, 4, 8, 16, 32, 64)
PER_CENTROID = 39  # training rows below which faiss calls a centroid badly trained
NESTED = 4  # the leading quarter of the dimensions is the first stage


class Kind(NamedTuple):
    """How a kind is built, and what its effort means.

    Attributes:
        factory: words of faiss's index factory for the codes that are searched.
        efforts: settings from quick to thorough; candidates are this many times k where all codes are compared.
        candidates: for graphs and lists, in units of k; the effort is then breadth / 16, or the lists looked into.
        leading: whether the codes are of the leading dimensions only.
    """

    factory: str
    efforts: tuple[int, ...] = LADDER
    candidates: int = 0
    leading: bool = False


KINDS = {
    "flat": Kind("Flat", efforts=(1,)),
    "float16": Kind("SQfp16"),
    "int8": Kind("SQ8"),
    "nested": Kind("SQ8", leading=True),
    "binary": Kind("RR{dim},RaBitQ"),
    "hnsw": Kind("HNSW32,SQ8", candidates=4),
    "ivf-pq": Kind("IVF{lists},PQ{parts}x4fs", candidates=16),
}


def empty_handle(kind: str, count: int, dim: int) -> Any:
    """An index of faiss for that many vectors, which waits for its training."""
    if kind not in KINDS:
        raise UserError(unknown("index", kind, list(KINDS)))
    faiss, plan = import_extra("faiss"), KINDS[kind]
    lists = max(1, min(int(4 * count**0.5), count // PER_CENTROID))
    parts = next(size for size in range(max(1, dim // 4), 0, -1) if dim % size == 0)
    if kind == "ivf-pq" and count < 16 * PER_CENTROID:
        raise UserError(f"{count} vectors given; ivf-pq needs {16 * PER_CENTROID} or more: use kind='flat' or 'int8'")
    width = -(-dim // NESTED) if plan.leading else dim
    words = plan.factory.format(dim=dim, lists=lists, parts=parts)
    codes = faiss.index_factory(width, words, faiss.METRIC_INNER_PRODUCT)
    if plan.leading:
        codes = faiss.IndexPreTransform(faiss.NormalizationTransform(width, 2.0), codes)
        codes.prepend_transform(faiss.RemapDimensionsTransform(dim, width, False))
    return codes if kind == "flat" else faiss.IndexRefineFlat(codes)


def search_handle(handle: Any, kind: str, effort: int, queries: Array, k: int, *, allowed: Array | None) -> Any:
    """Similarities and rows (Q, k); ``allowed`` are the only rows that may be found, None for all."""
    faiss = import_extra("faiss")
    chosen = None if allowed is None else faiss.IDSelectorBitmap(_bitmap(allowed, handle.ntotal))
    find = getattr(handle, "search_numpy", handle.search)  # faiss.contrib.torch_utils swaps search: no params there
    return find(queries, k, params=search_parameters(kind, effort, chosen))


def vectors_of(handle: Any, kind: str, rows: Array) -> Array:
    """The vectors (n, D) of these rows, as they were added."""
    exact = handle if kind == "flat" else import_extra("faiss").downcast_index(handle.refine_index)
    found: Array = exact.reconstruct_batch(rows)
    return found


def count_bytes(handle: Any, kind: str) -> int:
    """Bytes that a search goes through: codes, graph and lists, without the vectors for scoring again."""
    faiss, sizes = import_extra("faiss"), [0]

    def count(part: bytes) -> int:
        sizes[0] += len(part)
        return len(part)

    faiss.write_index(handle if kind == "flat" else handle.base_index, faiss.PyCallbackIOWriter(count))
    return sizes[0]


def write_handle(handle: Any, path: Path) -> None:
    """Write an index to a file."""
    import_extra("faiss").write_index(handle, str(path))


def read_handle(path: Path, *, memory_map: bool) -> Any:
    """What :func:`write_handle` wrote. Open only files that you trust: faiss does not guard itself."""
    faiss = import_extra("faiss")
    return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if memory_map else 0)


def search_parameters(kind: str, effort: int, chosen: Any) -> Any:
    """What faiss wants to know for one search; ``chosen`` is its selector of rows, None for all."""
    faiss = import_extra("faiss")
    if kind == "flat":
        return faiss.SearchParameters(sel=chosen)
    if kind == "hnsw":
        inner = faiss.SearchParametersHNSW(sel=chosen, efSearch=16 * effort)
    elif kind == "ivf-pq":
        inner = faiss.SearchParametersIVF(sel=chosen, nprobe=effort)
    else:
        inner = (faiss.RaBitQSearchParameters if kind == "binary" else faiss.SearchParameters)(sel=chosen)
        if kind in ("binary", "nested"):
            inner = faiss.SearchParametersPreTransform(index_params=inner)
    return faiss.IndexRefineSearchParameters(k_factor=KINDS[kind].candidates or effort, base_index_params=inner)


def _bitmap(rows: Array, count: int) -> Array:
    """A bit for each row, the lowest first."""
    bits = np.zeros(count, dtype=bool)
    bits[rows] = True
    return np.packbits(bits, bitorder="little")
