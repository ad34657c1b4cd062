"""What another model would give on a served collection, before anything is changed."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from similis.data.manifest import Manifest
from similis.model.collection_file import served_model
from similis.model.load import load
from similis.model.model import Model
from similis.retrieval.spaces.estimate import Estimate, estimate
from similis.serving.prepared import Images, embed_entries, number_labels
from similis.serving.store import Store
from similis.values import UserError

FARS = (1e-3, 1e-2, 1e-1)  # false accept rates


class Asked(NamedTuple):
    """An estimate, how many items the collection and the sample have, and what embedding all of them costs."""

    found: Estimate
    items: int
    sample: int
    hours: float
    bytes: int


def estimate_upgrade(
    folder: Path, run: Path, *, file: Path, data: Manifest | None, sample: int, device: str = "auto"
) -> Asked:
    """What another model would give on a collection, from a sample of its labelled items that have images."""
    before, model = load(served_model(folder, file), device=device), load(run, device=device)
    with closing(Store(file, read_only=True)) as store:
        (vectors, entries), images, kept = store.load(), Images(store, data), store.original_sizes()
        labelled = [row for row, entry in enumerate(entries) if entry.label is not None]
        there = [place for place, row in enumerate(labelled) if images.has(entries[row], kept)]
        chosen = torch.tensor(there)[torch.randperm(len(there), generator=torch.Generator().manual_seed(0))[:sample]]
        begun = time.perf_counter()
        made = {name: vector for name, _, vector in embed_entries(
            model, [entries[labelled[place]] for place in chosen.tolist()], images)}  # fmt: skip
        seconds = (time.perf_counter() - begun) / max(1, len(made))
    rows = [place for place in sorted(chosen.tolist()) if entries[labelled[place]].id in made]
    if not rows:
        raise UserError(f"no labelled item of {file} has an image here; name a folder with their images by --images")
    new = np.frombuffer(b"".join(made[entries[labelled[place]].id] for place in rows), "<f4").reshape(len(rows), -1)
    labels = number_labels([entries[row] for row in labelled])
    found = estimate(
        vectors[labelled], labels, torch.tensor(rows), torch.from_numpy(new.copy()), threshold_today(before)
    )
    return Asked(found, len(entries), len(rows), seconds * len(entries) / 3600, 4 * model.dim * len(entries))


def threshold_today(model: Model) -> float:
    """The similarity from which two items are the same, at the lowest of these rates that its gallery can tell."""
    for far in FARS[:-1]:
        with suppress(UserError):
            return model.threshold(far)
    return model.threshold(FARS[-1])
