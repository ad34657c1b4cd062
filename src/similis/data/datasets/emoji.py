"""Emoji: many classes with few images, as in shops; class = code point sequence, image = one vendor's drawing."""

from __future__ import annotations

from similis.data.catalogue import Counts, archive_copy, place_of, register_dataset
from similis.data.manifest import Manifest
from similis.values import DataError


@register_dataset(
    paper="drawings of several vendors, licences by vendor",
    counts={"train": Counts(5208, 981), "test": Counts(5192, 981)},
)
def emoji(*, root: str | None = None) -> Manifest:
    """Emoji: 1,962 classes, 5.3 drawings each; every second class is test. Layout: ``emoji.zip`` + ``.tsv``.

    Example:
        >>> emoji(root="data/")  # doctest: +SKIP
    """
    copy = archive_copy("emoji", root)
    if copy is None:
        raise DataError(f"emoji is not in {str(place_of(root))!r}: emoji.zip with emoji.tsv is wanted")
    return copy
