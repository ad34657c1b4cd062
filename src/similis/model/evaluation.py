"""A model measured on a data set, without the classes that trained it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from similis.data.manifest import Manifest
from similis.model.model import Model
from similis.model.verification import check_left, say_seen
from similis.retrieval.gallery import entries_of
from similis.retrieval.intervals import mean_interval
from similis.run.evaluation import judge_of
from similis.values import DataError, Embedded, UserError


def evaluated_rows(
    manifest: Manifest, part: str = "", models: Sequence[Model] = (), *, keep_trained: bool = False
) -> tuple[Tensor, str, int]:
    """Which rows of a data set are measured, what they are in words, and how many classes trained one of the models.

    Args:
        manifest: the data set.
        part: ``test``, ``all``, or nothing: the test classes where the data set states them.
        models: to be measured; classes that trained one of them are left out for all.
        keep_trained: measure these classes too.
    """
    stated = manifest.has("split")
    if part not in ("", "test", "all") or (part == "test" and not stated):
        raise UserError(
            f"part {part!r} given; {manifest.name!r} has all{' and test' if stated else ' only'}: give that"
        )
    everything = torch.arange(len(manifest))
    test = torch.tensor([name == "test" for name in manifest.parts])
    rows, words = (everything[test], "test classes") if stated and part != "all" else (everything, "all classes")
    entries = entries_of(manifest.select(rows))
    seen = [model.trained_on.seen(entries) for model in models if model.trained_on is not None]
    number = len(frozenset().union(*(each.classes for each in seen)))
    if not keep_trained and seen:
        rows = rows[~torch.tensor([each.images for each in seen]).any(dim=0)]
        check_left(len(rows), number, repr(manifest.name))
    sizes = torch.unique(manifest.labels[rows], return_counts=True)[1]
    if int((sizes > 1).sum()) < 2:
        raise DataError(
            f"{manifest.name!r} has {int((sizes > 1).sum())} classes with two images or more, of {len(sizes)} classes; "
            f"recall with an interval needs two such classes: add images{say_seen(number, keep_trained)}"
        )
    told = f"{len(rows):,} images of {len(manifest.classes(rows)):,} {words}{say_seen(number, keep_trained)}"
    return rows, told, number


def evaluate_model(model: Model, manifest: Manifest, rows: Tensor) -> dict[str, float]:
    """Means of a model on these rows with ``low`` and ``high`` of R@1 over classes."""
    part = manifest.select(rows)
    found = Embedded(model.encode(part), part.labels, rows)
    result = judge_of(found, manifest)(found, ks=(1, 8))
    span = mean_interval(result.per_query["recall@1"], found.labels[result.queries])
    return {**result.means, "low": span.low, "high": span.high}
