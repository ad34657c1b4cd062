"""What a page shows of a saved model beside its answers: small pictures of the gallery, error rates for a slider."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError

from similis.data.images import prepare
from similis.model.bundle_files import GALLERY, RATES, THUMBNAILS, read_lists, read_shapes
from similis.retrieval.gallery import Contents
from similis.retrieval.pair_similarities import count_upper, labelled_pairs, similarity_histogram
from similis.training.files import damage_error
from similis.training.folder import RunFolder
from similis.training.tensors import save_tensors
from similis.values import Embedded, import_extra

SIDE, QUALITY = 256, 80  # of a picture
PICTURES = {"contents": "similis-thumbnails-1"}
MOST_ROWS = 5000  # whose pairs are counted, of whole classes: twelve million pairs
STEPS = 200


class Rate(NamedTuple):
    """A similarity as the threshold of "same": the shares of impostor and of genuine pairs that it gets wrong."""

    similarity: float
    false_accept: float
    false_reject: float


RATE_LIST = TypeAdapter(list[Rate], config=ConfigDict(allow_inf_nan=False))


class Sample(NamedTuple):
    """Labelled vectors of a gallery, and the names of their labels."""

    embedded: Embedded
    names: list[str]


def labelled_sample(held: Contents, classes: Sequence[str] = ()) -> Sample | None:
    """At most 5,000 labelled vectors of a gallery, of whole classes; None without genuine and impostor pairs.

    Args:
        held: a gallery.
        classes: names of those to draw from, where they are in the gallery: what the model was not trained on.
    """
    vectors, labels, names = held.labelled_vectors()
    asked = set(classes)
    wanted = [number for number, name in enumerate(names) if name in asked] or list(range(len(names)))
    drawn = torch.randperm(len(wanted), generator=torch.Generator().manual_seed(0))
    order = torch.tensor(wanted, dtype=torch.long)[drawn]
    sizes = torch.bincount(labels, minlength=len(names))[order].cumsum(0)
    order = order[: max(2, int((sizes <= MOST_ROWS).sum()))]
    kept = torch.isin(labels, order)
    _, counts = torch.unique(labels[kept], return_counts=True)
    if len(counts) < 2 or int(counts.max()) < 2:
        return None
    found = Embedded(vectors[kept], labels[kept], torch.arange(int(kept.sum())))
    return Sample(found, [names[number] for number in order.tolist()])


def error_rates(held: Contents, classes: Sequence[str] = ()) -> list[Rate]:
    """Rates at thresholds from the lowest to the highest similarity of labelled images; none without pairs."""
    found = labelled_sample(held, classes)
    if found is None:
        return []
    similarity, pairs = similarity_histogram(count_upper(labelled_pairs(found.embedded)))
    steps = torch.linspace(float(similarity[0]), float(similarity[-1]), STEPS, dtype=torch.float64)
    below = torch.nn.functional.pad(pairs.double().cumsum(1), (1, 0))[:, torch.searchsorted(similarity, steps)]
    genuine, impostors = (below / pairs.sum(1, keepdim=True)).tolist()
    return [Rate(s, 1 - i, g) for s, g, i in zip(steps.tolist(), genuine, impostors, strict=True)]


def write_rates(folder: Path, rates: Sequence[Rate]) -> None:
    """Keep rates with a saved model; nothing is written for none."""
    if rates:
        RunFolder(folder).write(RATES, {"rates": [rate._asdict() for rate in rates]})


def read_rates(folder: Path) -> list[Rate]:
    """The rates in the folder of a saved model; none where there are none."""
    values = RunFolder(folder).read(RATES)
    try:
        return [] if values is None else RATE_LIST.validate_python(values.get("rates"))
    except ValidationError as error:
        raise damage_error(folder / RATES, error) from error


def make_thumbnail(image: bytes, formats: tuple[str, ...] | None = None) -> bytes:
    """An upright picture of at most 256 pixels a side as JPEG, without anything that the file said beside its pixels.

    Args:
        image: encoded bytes.
        formats: that they may have; None for all.
    """
    pixels = prepare(image, resize=SIDE // 2, keep=2.0, formats=formats)  # enlarges nothing
    small, held = import_extra("PIL.Image").fromarray(pixels), io.BytesIO()
    small.thumbnail((SIDE, SIDE))
    small.save(held, "JPEG", quality=QUALITY)
    return held.getvalue()


def write_thumbnails(folder: Path, pictures: Sequence[bytes]) -> None:
    """Keep pictures with a saved model, in the order of its gallery; b"" where there is none."""
    joined = torch.frombuffer(bytearray(b"".join(pictures)) or bytearray(1), dtype=torch.uint8)
    ends = torch.tensor([len(picture) for picture in pictures], dtype=torch.long).cumsum(0)
    save_tensors(folder / THUMBNAILS, {"bytes": joined, "ends": ends}, PICTURES)


def read_thumbnails(folder: Path) -> list[bytes]:
    """Pictures in the order of the gallery, b"" where there is none; an empty list for a model without."""
    file = folder / THUMBNAILS
    if not file.exists():
        return []
    found = read_lists(file, PICTURES["contents"], {"bytes": "U8", "ends": "I64"})
    joined, ends = found["bytes"].numpy().tobytes(), [0, *found["ends"].tolist()]
    rows = read_shapes(folder / GALLERY)["vectors"][1][0]
    if ends != sorted(ends) or ends[-1] > len(joined) or len(ends) != rows + 1:
        raise damage_error(file, f"it does not hold a picture for each of {rows:,} vectors")
    return [joined[start:end] for start, end in pairwise(ends)]
