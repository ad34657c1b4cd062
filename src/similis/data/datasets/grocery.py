"""Grocery Store. Klasson, Zhang, Kjellstrom: A Hierarchical Grocery Store Image Dataset, WACV 2019."""

from __future__ import annotations

from similis.data.catalogue import Counts, archive_copy, place_of, register_dataset
from similis.data.manifest import Manifest
from similis.values import DataError


@register_dataset(
    paper="Klasson, Zhang, Kjellstrom: A Hierarchical Grocery Store Image Dataset, WACV 2019",
    counts={"all": Counts(5421, 81)},
)
def grocery(*, root: str | None = None) -> Manifest:
    """Groceries: phone photos of 81 products in 43 super-classes; its classes are split by a seed.

    Layout: ``grocery.zip`` + ``.tsv``. Its own split shares classes between the parts and is not used.

    Example:
        >>> grocery(root="data/")  # doctest: +SKIP
    """
    copy = archive_copy("grocery", root)
    if copy is None:
        raise DataError(f"grocery is not in {str(place_of(root))!r}: grocery.zip with grocery.tsv is wanted")
    return copy
