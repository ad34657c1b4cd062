"""Embed a data set: a bare forward for each batch, results in the order of the data set."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from similis.labels import encode_labels, is_integers, list_labels
from similis.values import Batch, DataError, Embedded, UserError


def embed(
    model: Callable[[Tensor], Tensor],
    batches: Iterable[Batch | tuple[Tensor, Any]],
    *,
    count: int | None = None,
    device: torch.device | str | None = None,
) -> Embedded:
    """Vectors of all images, sorted by id, so that the order of loading leaves no trace.

    A module runs in evaluation mode and inference mode; afterwards every part of it is back in the mode it was in
    (frozen batch norm stays frozen). The result lies on the CPU and may be used under autograd.

    Args:
        model: images (B, ...) -> vectors (B, D).
        batches: images and labels, as a ``DataLoader`` gives them, perhaps with ids, each once; without ids images
            are numbered as they come. Labels other than integers are numbered in the order in which they first come.
        count: number of images, if known: the result is allocated once and filled, and a missing image is an
            error. None collects the batches and joins them, which needs twice the memory for a moment.
        device: where the model lives; None leaves the images where they are.

    Shapes: vectors (N, D), float32 (or float64 if the model says so), labels (N,), ids (N,).

    Example:
        >>> batch = Batch(torch.ones(2, 3), torch.tensor([7, 8]), torch.tensor([1, 0]))
        >>> embed(torch.nn.Identity(), [batch], count=2).labels.tolist()
        [8, 7]
    """
    parts = _forward(model, batches, device)
    vectors, labels, ids = _join(parts) if count is None else _fill(parts, count)
    rising, order = ids.sort(stable=True)
    twice = (rising[1:] == rising[:-1]).nonzero().flatten()
    if len(twice):
        raise DataError(
            f"{len(twice)} ids came more than once, first {int(rising[twice[0]])}; "
            "embed each image once: use a sampler in sequence, without padding of the last batch"
        )
    if bool((order[1:] > order[:-1]).all()):
        return Embedded(vectors, labels, ids)
    return Embedded(vectors[order], labels[order], rising)


def as_embedded(given: Any, labels: Any = None) -> Embedded:
    """An embedding whose labels are a tensor: one as it is, or vectors (N, D) with labels of any hashable kind.

    Example:
        >>> as_embedded(torch.eye(3), ["cat", "dog", "cat"]).labels.tolist()
        [0, 1, 0]
    """
    if isinstance(given, Embedded) == (labels is not None):
        raise UserError("give an Embedded(vectors, labels, ids), or a tensor of vectors (N, D) and their labels")
    vectors, labels, ids = given if labels is None else (given, labels, None)
    if not isinstance(vectors, Tensor):
        raise UserError(f"vectors are {type(vectors).__name__}; give a tensor (N, D): torch.as_tensor(vectors)")
    ids = torch.arange(len(vectors)) if ids is None else encode_labels(ids)
    return Embedded(vectors, encode_labels(labels), ids)


def _forward(
    model: Callable[[Tensor], Tensor],
    batches: Iterable[Batch | tuple[Tensor, Any]],
    device: torch.device | str | None,
) -> Iterator[Embedded]:
    """One forward for each batch; vectors as the model gives them."""
    known: dict[Hashable, int] = {}
    done = 0
    with _evaluation_mode(model):
        for batch in batches:
            if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
                raise UserError(
                    f"a batch is {type(batch).__name__}; the loader must give (images, labels) or (images, labels, ids)"
                )
            images, labels = batch[0], _number_labels(batch[1], known)
            ids = batch[2] if len(batch) == 3 else torch.arange(done, done + len(labels))
            done += len(labels)
            with torch.inference_mode():
                vectors = model(images if device is None else images.to(device, non_blocking=True))
            if vectors.ndim != 2 or not len(vectors) == len(labels) == len(ids):
                raise UserError(
                    f"the model made {tuple(vectors.shape)} of a batch with {len(labels)} labels and {len(ids)} ids; "
                    "one vector, one label and one id for each image are needed"
                )
            yield Embedded(vectors, labels, ids)


def _number_labels(labels: Any, known: dict[Hashable, int]) -> Tensor:
    """Labels of a batch as a tensor; values other than integers get numbers that ``known`` keeps for later batches."""
    if isinstance(labels, Tensor):
        return labels
    values = list_labels(labels)
    if is_integers(values):
        return encode_labels(values)
    for value in values:
        known.setdefault(value, len(known))
    return encode_labels(values, known)


def _fill(parts: Iterable[Embedded], count: int) -> Embedded:
    """Batches written into tensors of ``count`` rows."""
    vectors = torch.empty(0, 0, device="cpu")
    labels, ids = (torch.empty(count, dtype=torch.long, device="cpu") for _ in range(2))
    start = 0
    for part in parts:
        stop = start + len(part.ids)
        if stop > count:
            raise DataError(f"{stop} images or more came, {count} were announced; correct count or the loader")
        if start == 0:
            stored = _stored_type(part.vectors.dtype)
            vectors = torch.empty((count, part.vectors.shape[1]), dtype=stored, device="cpu")
        vectors[start:stop], labels[start:stop], ids[start:stop] = part
        start = stop
    if start < count:
        raise DataError(f"{start} images came, {count} were announced; does the loader drop its last batch?")
    return Embedded(vectors, labels, ids)


def _join(parts: Iterable[Embedded]) -> Embedded:
    """Batches put one behind the other."""
    copies = [
        (part.vectors.to("cpu", _stored_type(part.vectors.dtype), copy=True), part.labels.cpu(), part.ids.cpu())
        for part in parts
    ]
    if not copies:
        raise DataError("the loader gave no batch, so there is nothing to embed; check the manifest and the loader")
    vectors, labels, ids = (torch.cat(column) for column in zip(*copies, strict=True))
    return Embedded(vectors, labels.long(), ids.long())


def _stored_type(given: torch.dtype) -> torch.dtype:
    """Half precision is stored as float32: ranks would tie that are not equal."""
    return torch.float64 if given == torch.float64 else torch.float32


@contextmanager
def _evaluation_mode(model: object) -> Iterator[None]:
    """A module in evaluation mode for a while; only parts in training mode change, and return to it."""
    parts = [part for part in model.modules() if part.training] if isinstance(model, nn.Module) else []
    for part in parts:
        part.training = False
    try:
        yield
    finally:
        for part in parts:
            part.training = True
