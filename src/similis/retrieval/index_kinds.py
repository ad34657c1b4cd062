"""The only module that imports faiss: kinds of indexes, how each is built, searched, measured and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from similis.registry import check_known
from similis.values import UserError, import_extra

Array = np.ndarray[Any, Any]
LADDER = (1, 2, 4, 8, 16, 32, 64)
LISTS = (*LADDER, 128, 192, 256, 384, 512)  # looked into
PER_CENTROID = 39  # training rows below which faiss calls a centroid badly trained
MOST_LISTS = 4096  # every vector is compared with all of them when an index is filled
TRAINING = 100_000  # vectors that codes without lists are trained on
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
    "flat": Kind("", efforts=(1,)),
    "float16": Kind("SQfp16"),
    "int8": Kind("SQ8"),
    "nested": Kind("SQ8", leading=True),
    "binary": Kind("RR{dim},RaBitQ"),
    "hnsw": Kind("HNSW32,SQ8", candidates=4),
    "ivf-int8": Kind("IVF{lists},SQ8", efforts=LISTS, candidates=4),
    "ivf-pq": Kind("IVF{lists},PQ{parts}x4fs", efforts=LISTS, candidates=16),
}


def empty_codes(kind: str, count: int, dim: int) -> Any:
    """Codes of faiss for that many vectors, which wait for their training; None for "flat", which has none."""
    check_known("index", kind, KINDS)
    faiss, plan = import_extra("faiss"), KINDS[kind]
    if kind == "flat":
        return None
    lists = max(1, min(int(4 * count**0.5), MOST_LISTS, count // PER_CENTROID))
    parts = next(size for size in range(max(1, dim // 4), 0, -1) if dim % size == 0)
    if kind.startswith("ivf") and count < 16 * PER_CENTROID:
        raise UserError(f"{count} vectors given; {kind} needs {16 * PER_CENTROID} or more: use kind='flat' or 'int8'")
    width = -(-dim // NESTED) if plan.leading else dim
    words = plan.factory.format(dim=dim, lists=lists, parts=parts)
    codes = faiss.index_factory(width, words, faiss.METRIC_INNER_PRODUCT)
    if plan.leading:
        codes = faiss.IndexPreTransform(faiss.NormalizationTransform(width, 2.0), codes)
        codes.prepend_transform(faiss.RemapDimensionsTransform(dim, width, False))
    return codes


def training_rows(codes: Any) -> int:
    """Vectors that codes are trained on at most: enough for every list of lists."""
    return max(TRAINING, 50 * int(getattr(codes, "nlist", 0)))


def merge_codes(codes: Any, others: Any) -> None:
    """Append the codes of the rows that come next; not for graphs."""
    codes.merge_from(others, codes.ntotal if hasattr(codes, "nlist") else 0)


def search_codes(codes: Any, kind: str, effort: int, queries: Array, k: int, *, allowed: Array | None) -> Array:
    """Candidates (Q, C) for the k nearest, -1 where there are fewer; ``allowed`` rows alone may be found."""
    faiss, most = import_extra("faiss"), int(codes.ntotal if allowed is None else len(allowed))
    chosen = None if allowed is None else faiss.IDSelectorBitmap(_bitmap(allowed, codes.ntotal))
    find = getattr(codes, "search_numpy", codes.search)  # faiss.contrib.torch_utils swaps search: no params there
    count = min(k * (KINDS[kind].candidates or effort), max(most, k))
    found: Array = find(queries, count, params=search_parameters(kind, effort, chosen))[1]
    return found


def nearest_rows(queries: Array, vectors: Array, k: int) -> tuple[Array, Array]:
    """Similarities and rows (Q, k) of an exact search by inner products."""
    faiss = import_extra("faiss")
    values, rows = faiss.knn(queries, np.ascontiguousarray(vectors), k, metric=faiss.METRIC_INNER_PRODUCT)
    return values, rows


def count_bytes(codes: Any) -> int:
    """Bytes of codes, graph and lists."""
    sizes = [0]

    def count(part: bytes) -> int:
        sizes[0] += len(part)
        return len(part)

    import_extra("faiss").write_index(codes, import_extra("faiss").PyCallbackIOWriter(count))
    return sizes[0]


def write_codes(codes: Any, path: Path) -> None:
    """Write codes to a file."""
    import_extra("faiss").write_index(codes, str(path))


def read_codes(path: Path, *, memory_map: bool) -> Any:
    """What :func:`write_codes` wrote. Open only files that you trust: faiss does not guard itself."""
    faiss = import_extra("faiss")
    return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC if memory_map else 0)


def search_parameters(kind: str, effort: int, chosen: Any) -> Any:
    """What faiss wants to know for one search; ``chosen`` is its selector of rows, None for all."""
    faiss = import_extra("faiss")
    if kind == "hnsw":
        return faiss.SearchParametersHNSW(sel=chosen, efSearch=16 * effort)
    if kind.startswith("ivf"):
        return faiss.SearchParametersIVF(sel=chosen, nprobe=effort)
    inner = (faiss.RaBitQSearchParameters if kind == "binary" else faiss.SearchParameters)(sel=chosen)
    return faiss.SearchParametersPreTransform(index_params=inner) if kind in ("binary", "nested") else inner


def _bitmap(rows: Array, count: int) -> Array:
    """A bit for each row, the lowest first."""
    bits = np.zeros(count, dtype=bool)
    bits[rows] = True
    return np.packbits(bits, bitorder="little")
