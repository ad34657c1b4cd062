"""``similis index VECTORS --recall 0.98 --memory 2GB``: measure kinds of indexes, build the cheapest that is enough."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from similis.cli.json_output import Outcome, Result
from similis.cli.options import OnRay
from similis.cli.screen import print_lines, show_table
from similis.values import UserError

if TYPE_CHECKING:
    from similis.retrieval.index_choice import Measured, Target

UNITS = ("", "k", "m", "g", "t")


def index(
    *,
    vectors: Annotated[Path, typer.Argument(help="A .npy, .safetensors or .parquet file, or a saved model's folder.")],
    recall: Annotated[float, typer.Option(help="Share of the 10 exact neighbours to find.")] = 0.98,
    memory: Annotated[str, typer.Option(help="Largest size of the index, for example 2GB. [any]")] = "",
    out: Annotated[Path | None, typer.Option(help="Folder of the index. [measure only]")] = None,
    queries: Annotated[int, typer.Option(help="Vectors held out as queries.", min=10)] = 1000,
    sample: Annotated[int, typer.Option(help="Vectors that each kind is measured on.", min=1000)] = 100_000,
    similarity: Annotated[str, typer.Option(help="cosine or dot.")] = "cosine",
    kind: Annotated[
        str | None, typer.Option(help="Build this kind; docs/retrieval.md has them. [the smallest]")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that encode shards. [1]", min=1)] = None,
    on_ray: OnRay = False,
) -> Result | Outcome:
    """Build the index with the fewest bytes that finds enough of the exact neighbours of your own vectors."""
    from similis.engine.executor import Executor
    from similis.model.index_folder import build_folder
    from similis.model.vector_file import read_vectors
    from similis.retrieval.index_choice import Target
    from similis.retrieval.index_kinds import KINDS

    target = Target(recall, parse_bytes(memory) if memory else None)
    found, count, dim = build_folder(
        read_vectors(vectors), out, target=target, kinds=[kind] if kind else list(KINDS), queries=queries,
        sample=sample, executor=Executor(workers, on_ray),
        similarity=similarity,  # type: ignore[arg-type]  # build_folder checks it
    )  # fmt: skip
    best = found.best
    title = f"{vectors.name}: {count:,} vectors of {dim} dimensions, measured on {found.table[0].rows:,}"
    heads = ("kind", "effort", "bytes/vector", "build s", "recall@10", "at least", "queries/s", "MB", "target")
    show_table(title, heads, [kind_row(one, target, count) for one in found.table])
    folder = out if found.met else None
    words = (
        f"{best.kind}: recall@10 {best.recall:.4f}, at least {best.lower:.4f}, in {best.bytes * count / 1e6:,.1f} MB"
    )
    if not found.met:
        words = f"No kind meets the target. The nearest is {words}. Lower --recall or raise --memory."
    words += f"; written to {folder}" if folder else ""
    print_lines(words)
    result = {"vectors": count, "dim": dim, "met": found.met, "best": best, "kinds": found.table, "folder": folder}
    return result if found.met else Outcome(result, 1)


def kind_row(found: Measured, target: Target, count: int) -> tuple[str, ...]:
    """A kind in words."""
    verdict = "met" if target.is_met(found, count) else "recall" if target.fits(found, count) else "memory"
    return (found.kind, str(found.effort), f"{found.bytes:.1f}", f"{found.build_seconds:.2f}", f"{found.recall:.4f}",
            f"{found.lower:.4f}", f"{found.queries_per_second:,.0f}", f"{found.bytes * count / 1e6:,.1f}",
            verdict)  # fmt: skip


def parse_bytes(words: str) -> int:
    """A number of bytes from a text.

    Example:
        >>> parse_bytes("2GB"), parse_bytes("512 MiB")
        (2000000000, 536870912)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", words.lower())
    if found is None or not float(found[1]):
        raise UserError(f"memory {words!r} given; give a number above 0 with a unit, for example 2GB or 512MiB")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** UNITS.index(found[2]))
