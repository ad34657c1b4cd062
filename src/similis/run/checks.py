"""What a run needs of its data, looked at before anything is trained."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor

from similis.objective.loss_options import check_settings
from similis.registry import losses
from similis.run.parts import Source
from similis.run.protocol import training_steps
from similis.run.spec import RunSpec
from similis.values import DataError, UserError, import_extra


class Layout(NamedTuple):
    """A balanced batch: so many images, so many of each class."""

    batch_size: int
    per_class: int


def check_run(spec: RunSpec, source: Source) -> None:
    """Raise if the first batch of a run cannot be made, or if its recall would be a mean over nothing."""
    o = spec.objective
    check_settings(o.loss, o.options, preset=o.preset, miner=o.miner)
    check_views(spec)
    if spec.evaluation.clustering:
        import_extra("sklearn.cluster")  # what is missing should be said before hours of work
    split, steps = source.split, training_steps(spec, source.split)
    for step in steps[:1]:
        check_layout(spec, source.manifest.labels[step.rows])
        if len(step.judged_on) and not step.opens_test:
            check_matches(source, step.judged_on, "validation", "train for a fixed length with training.select=last")
    if len(split.test) and (spec.evaluation.test or any(step.opens_test for step in steps)):
        check_matches(source, split.test, "test", "leave the test out with evaluation.test=false")


def check_views(spec: RunSpec) -> None:
    """Raise on two views in batches of whole classes, and on proxies without classes."""
    t, entry = spec.training, losses.get(spec.objective.loss)
    if t.views > 1 and spec.sampler != "random":
        raise UserError(f"training.views is {t.views} and the sampler is {spec.sampler}; set training.sampler=random")
    if not t.labelled and entry.learns:
        fit = ", ".join(each.name for each in losses if not each.learns)
        raise UserError(f"{entry.name} learns a proxy for each class, and the images have no labels; choose {fit}")


def check_matches(source: Source, rows: Tensor, part: str, otherwise: str) -> None:
    """Raise if no image has another image of its class: recall would not be a number.

    Args:
        source: labels; roles and groups count for the test images alone, as in the evaluation.
        rows: of the images.
        part: ``validation`` or ``test``.
        otherwise: what else can be done, for the error.
    """
    manifest, labels = source.manifest, source.manifest.labels.tolist()
    grouped = part == "test" and manifest.has("group")
    apart = manifest.numbers("group").tolist() if grouped else range(len(labels))
    queries, gallery = (manifest.rows_of(role, rows) if part == "test" else rows for role in ("query", "gallery"))
    there = {(labels[row], apart[row]) for row in gallery.tolist()}
    sizes = Counter(label for label, _ in there)
    if any(sizes[labels[row]] > ((labels[row], apart[row]) in there) for row in queries.tolist()):
        return
    raise DataError(
        f"found {len(rows)} {part} images of {len({labels[row] for row in rows.tolist()})} classes, none with another "
        f"image of its class that could answer it; recall needs a class with two such images: add some, or {otherwise}"
    )


def check_layout(spec: RunSpec, labels: Tensor) -> None:
    """Raise if balanced batches cannot be made of the training images; the error names the nearest that can."""
    t = spec.training
    asked = Layout(t.batch_size, t.per_class)
    if spec.sampler != "balanced" or is_possible(asked, labels):
        return
    found = f"{len(labels)} training images of {len(torch.unique(labels))} classes"
    near = fitting_layout(asked, labels)
    if near is None:
        raise DataError(f"{found} are too few for balanced batches; they need two images of each of two classes")
    raise UserError(
        f"{found} do not make balanced batches of {t.batch_size} images, {t.per_class} of each class in a batch; "
        f"set training.batch_size={near.batch_size} and training.per_class={near.per_class}"
    )


def is_possible(asked: Layout, labels: Tensor) -> bool:
    """Whether batches of whole classes can be made of images with these labels."""
    classes, rest = divmod(asked.batch_size, asked.per_class)
    return asked.batch_size <= len(labels) and classes <= len(torch.unique(labels)) and not rest


def fitting_layout(
    asked: Layout, labels: Tensor, *, keep_batch: bool = False, keep_class: bool = False
) -> Layout | None:
    """The layout asked for, or else the nearest smaller one that is possible and has two classes; None without one.

    Args:
        asked: the largest batch, and the most images of a class.
        labels: (N,) of the training images.
        keep_batch: the batch has this size and no other.
        keep_class: the batch has so many images of a class and not fewer.

    Example:
        >>> fitting_layout(Layout(100, 5), torch.arange(8).repeat_interleave(6))
        Layout(batch_size=40, per_class=5)
    """
    if is_possible(asked, labels):
        return asked
    sizes = torch.unique(labels, return_counts=True)[1]
    fewer = range(min(asked.per_class, int(sizes.max())), 1, -1)  # a smaller class would only repeat its images
    for per_class in [asked.per_class] if keep_class else fewer:
        classes = min(asked.batch_size // per_class, len(sizes), len(labels) // per_class)
        if classes >= 2 and (not keep_batch or classes * per_class == asked.batch_size):
            return Layout(classes * per_class, per_class)
    return None
