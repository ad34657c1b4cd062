"""The table of a manifest: from columns with many possible names to one Arrow schema."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similis.values import DataError, import_extra

# Column of the manifest -> names it goes by in tables found in the wild, first match wins.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "path": ("path", "file", "filename", "image", "image_path"),
    "bytes": ("bytes", "image_bytes"),
    "vector": ("vector", "features", "embedding"),
    "class": ("label", "class_id", "class", "target"),
    "class_name": ("class_name", "name"),
    "split": ("dml_split", "split"),
    "role": ("role",),
    "group": ("group",),
    "super_class": ("super_class", "coarse_name", "super_class_id"),
}
SPLITS = ("train", "test")
ROLES = ("query", "gallery", "both")
Columns = Mapping[str, Sequence[Any]]


def standardise_columns(columns: Columns, where: str) -> dict[str, Any]:
    """Columns under the manifest's names, with labels 0-based and contiguous.

    Labels follow the order of the class ids (as numbers where they are numbers, as text otherwise).

    Example:
        >>> standardise_columns({"file": ["a.png", "b.png"], "class_id": ["7", "3"]}, "t.csv")["label"]
        [1, 0]
    """
    found = {}
    for name, aliases in ALIASES.items():
        key = next((alias for alias in aliases if alias in columns), None)
        if key is not None:
            found[name] = columns[key] if is_arrow(columns[key]) else list(columns[key])
    if not {"path", "bytes", "vector"} & set(found):
        raise DataError(
            f"{where!r}: no column for the image; have {sorted(columns)}, want one of {ALIASES['path']}, "
            f"or ready vectors in one of {ALIASES['vector']}"
        )
    classes = found.pop("class", found.get("class_name"))
    if classes is None:
        raise DataError(f"{where!r}: no column for the class; have {sorted(columns)}, want one of {ALIASES['class']}")
    check_complete(classes, "class", where)
    image = next(name for name in ("vector", "bytes", "path") if name in found)
    check_complete(found[image], image, where)
    odd = [value for value in found.get("bytes", ()) if not isinstance(value, bytes)]
    if odd:
        raise DataError(f"{where!r}: column 'bytes' holds {type(odd[0]).__name__}; want the bytes of an image file")
    found["label"] = number_classes(classes)
    named = found.get("class_name", classes)
    found["class_name"] = [str(own if is_missing(name) else name) for name, own in zip(named, classes, strict=True)]
    if "path" in found:
        found["path"] = [f"row-{row}" if is_missing(path) else path for row, path in enumerate(found["path"])]
    for name, allowed in (("split", SPLITS), ("role", ROLES)):
        check_words(found.get(name), name, allowed, where)
    return found


def is_missing(value: Any) -> bool:
    """Whether a table says nothing: null, empty text, not a (finite) number."""
    return value is None or value == "" or (isinstance(value, float) and not math.isfinite(value))


def is_arrow(values: Any) -> bool:
    """Whether a column is still Arrow's."""
    return hasattr(values, "combine_chunks")


def is_list_of_floats(kind: Any) -> bool:
    """Whether an Arrow type is that of vectors."""
    types = import_extra("pyarrow").types
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(lists and types.is_floating(kind.value_type))


def check_complete(values: Any, name: str, where: str) -> None:
    """Raise unless every row has a value; empty bytes are a value, of an unreadable image."""
    empty = values.is_null().to_pylist() if is_arrow(values) else map(is_missing, values)
    missing = [row for row, nothing in enumerate(empty) if nothing]
    if missing:
        raise DataError(
            f"{where!r}: {len(missing)} rows have no {name}, the first is row {missing[0]}; fill or remove them"
        )


def check_columns(names: Sequence[str], where: str) -> None:
    """Raise if two columns have one name: which one is meant?"""
    twice = [name for name, number in Counter(names).items() if number > 1]
    if twice:
        raise DataError(f"{where!r}: columns {', '.join(map(repr, twice))} occur more than once; rename or remove one")


def vector_rows(column: Any, where: str) -> NDArray[Any]:
    """The numbers (N, F) of an Arrow column of vectors, which have one length; what is missing is NaN."""
    lengths = sorted(set(column.value_lengths().fill_null(-1).to_pylist()))
    if len(lengths) != 1 or lengths[0] < 1:
        raise DataError(f"{where} have lengths {lengths}; all must have one length above 0")
    return np.array(column.flatten().to_numpy(zero_copy_only=False)).reshape(len(column), lengths[0])


def number_classes(classes: Sequence[Any]) -> list[int]:
    """Class ids as labels 0, 1, ... in the order of the ids."""
    try:
        values: list[Any] = [to_integer(value) for value in classes]
        if len(set(values)) < len(set(classes)):  # 01 and 1 are two names
            raise ValueError(classes)
    except (TypeError, ValueError):
        values = [str(value) for value in classes]
    order = {value: label for label, value in enumerate(sorted(set(values)))}
    return [order[value] for value in values]


def to_integer(value: Any) -> int:
    """A class id as a whole number; a ValueError where it is none."""
    broken = isinstance(value, float) and not value.is_integer()
    if broken or (isinstance(value, str) and "_" in value):  # which Python would leave out
        raise ValueError(value)
    return int(value)


def check_words(values: Sequence[Any] | None, name: str, allowed: tuple[str, ...], where: str) -> None:
    """Raise unless every value is one of the allowed words."""
    wrong = sorted({str(value) for value in values or ()} - set(allowed))
    if wrong:
        raise DataError(
            f"{where!r}: column {name!r} holds {wrong[:3]}, allowed are {list(allowed)}; "
            "rename the values, or rename the column to have it ignored"
        )


def to_arrow(columns: Columns) -> Any:
    """An Arrow table in the manifest's schema; ids are row numbers unless given."""
    pa = import_extra("pyarrow")
    rows = len(columns["label"])
    types = {
        "id": pa.int64(), "path": pa.string(), "bytes": pa.large_binary(), "label": pa.int64(),
        "class_name": pa.string(), "group": pa.string(), "super_class": pa.string(), "role": pa.string(),
        "split": pa.string(), "content": pa.string(), "vector": pa.list_(pa.float32()),
    }  # fmt: skip
    filled: dict[str, Any] = {"id": range(rows), "path": [f"row-{row}" for row in range(rows)], **columns}
    arrays = {}
    for name, kind in types.items():
        if name in filled:
            try:
                arrays[name] = to_column(filled[name], kind)
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise DataError(f"column {name!r} cannot be read as {kind}: {error}") from error
    return pa.table(arrays)


def to_column(values: Any, kind: Any) -> Any:
    """A column in the manifest's type; numbers become text where it is text, and what is missing stays missing."""
    pa = import_extra("pyarrow")
    if is_arrow(values):
        return values.cast(kind)
    if kind == pa.string():
        values = [None if value is None else str(value) for value in values]
    return pa.array(values, kind)
