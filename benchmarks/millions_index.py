"""The index of :mod:`benchmarks.millions`: ours beside bare faiss, its parts and memory, and fresh draws of queries."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mixture import DIM
from similis.model import index_folder
from similis.model.index_folder import ABOUT, build_folder, load_index
from similis.model.vector_file import read_vectors
from similis.retrieval import index_build, index_choice
from similis.retrieval.index_build import RowFile, draw_rows, take_rows
from similis.retrieval.index_choice import Target, draw_trial, recall_of
from similis.retrieval.index_kinds import empty_codes, training_rows


def build(given: argparse.Namespace) -> dict[str, Any]:
    """Both builds in processes of their own; what the smaller sizes predict stands in the record beforehand."""
    sides = {}
    for side in ("ours", "bare"):
        words = [sys.executable, "-m", "benchmarks.millions", f"build-{side}", "--rows", str(given.rows)]
        done = subprocess.run([*words, "--folder", str(given.folder)], capture_output=True, text=True, check=True)
        sides |= {f"{side}, {key}": value for key, value in json.loads(done.stdout.splitlines()[-1]).items()}
    ours, bare = (sum(sides[f"{side}, {part}, processor s"] for part in ("train", "fill")) for side in ("ours", "bare"))
    return {"rows": given.rows, **sides, "ratio": ours / bare}


def build_ours(given: argparse.Namespace) -> dict[str, Any]:
    """``similis index`` in this process, with the processor seconds of its parts."""
    held, spent = watch_memory(), Counter[str]()

    def time_part(place: Any, name: str) -> None:
        inner = getattr(place, name)

        def timed(*values: Any, **options: Any) -> Any:
            begun = time.process_time()
            made = inner(*values, **options)
            sampled = any(isinstance(getattr(each, "rows", each), np.ndarray) for each in values)
            spent[f"{name} of the sample" if sampled else name] += time.process_time() - begun
            return made

        setattr(place, name, timed)

    for place, name in ((index_folder, "lay_out"), (index_choice, "draw_trial"), (index_choice.Trial, "attempt"),
                        (index_folder, "build_codes"), (index_build, "fill")):  # fmt: skip
        time_part(place, name)
    found, _, _ = build_folder(
        blocks(given), given.folder / f"index-{given.rows}", target=Target(0.98), kinds=["ivf-int8"]
    )
    parts = {"lay out": spent["lay_out"], "exact search": spent["draw_trial"], "sample": spent["attempt of the sample"],
             "train": spent["build_codes"] - spent["fill"], "fill": spent["fill"],
             "search": spent["attempt"] - spent["build_codes"]}  # fmt: skip
    parts = {f"{name}, processor s": seconds for name, seconds in parts.items()}
    return {**cost(), "peak without file pages, MB": max(held) / 1e6, **parts, **found.best._asdict()}


def build_bare(given: argparse.Namespace) -> dict[str, Any]:
    """The same training and filling by calls of faiss, from the file that the index has left."""
    rows = row_file(given)
    begun, codes = time.process_time(), empty_codes("ivf-int8", *rows.shape)
    codes.train(take_rows(rows, draw_rows(rows.total, training_rows(codes))))
    trained = time.process_time()
    for start in range(0, rows.total, 2**16):
        codes.add(rows[start : start + 2**16])
    return {"train, processor s": trained - begun, "fill, processor s": time.process_time() - trained}


def draws(given: argparse.Namespace) -> dict[str, Any]:
    """The recall of twenty fresh draws of 1,000 queries beside the promise; draws that a killed run made are kept."""
    folder, index = given.folder / f"index-{given.rows}", load_index(given.folder / f"index-{given.rows}")
    found = json.loads(done.read_bytes()) if (done := folder.with_suffix(".draws")).exists() else []
    promise = json.loads((folder / ABOUT).read_bytes())["recall"]
    for seed in range(1 + len(found), 21):
        trial = draw_trial(row_file(given), 1000, Target(0.98), seed)
        near = trial.find(index.codes, index.kind, index.effort)
        found.append(float(recall_of(near, trial.exact).mean()))
        done.write_text(json.dumps(found))
    kept = {f"draws of at least {level:.4f}": sum(one >= level for one in found) for level in (0.98, promise)}
    return {"rows": given.rows, "promise": promise, "lowest": min(found), "mean": float(np.mean(found)), **kept}


def cost() -> dict[str, float]:
    """Processor seconds and the highest resident memory of this process so far, with pages of files."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return {"processor s": spent.ru_utime + spent.ru_stime, "peak MB": spent.ru_maxrss / 1e3}


def watch_memory() -> list[int]:
    """Bytes of this process that are not pages of files, noted by a thread from now on."""
    held = [0]

    def watch() -> None:
        while True:
            held.append(resident(os.getpid(), "RssAnon"))
            time.sleep(0.1)

    threading.Thread(target=watch, daemon=True).start()
    return held


def resident(process: int, kind: str = "VmHWM") -> int:
    """The highest resident memory of a process so far; ``RssAnon`` for what it has now that is no page of a file."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(kind)), 0)
    except OSError:
        return 0


def blocks(given: argparse.Namespace) -> Any:
    """The first rows of the embedded tables."""
    left = given.rows
    for block in read_vectors(given.folder / "vectors"):
        yield block
        left -= len(block.vectors)
        if left <= 0:
            return


def row_file(given: argparse.Namespace) -> RowFile:
    """The vectors of a built index."""
    folder = given.folder / f"index-{given.rows}"
    (path,) = folder.glob("*.vectors")
    return RowFile(path, json.loads((folder / ABOUT).read_bytes())["count"], DIM)
