"""Omniglot. Lake, Salakhutdinov, Tenenbaum: Human-level concept learning, Science 2015."""

from __future__ import annotations

from similis.data.catalogue import Counts, archive_copy, first_folder, register_dataset
from similis.data.manifest import Manifest, from_columns
from similis.data.readers.folder import is_image, list_tree
from similis.data.sources import FolderSource
from similis.data.table import Columns, numbered

_PARTS = {"images_background": "train", "images_evaluation": "test"}


@register_dataset(
    paper="Lake, Salakhutdinov, Tenenbaum: Human-level concept learning through probabilistic program induction, 2015",
    counts={"train": Counts(19280, 964), "test": Counts(13180, 659)},
)
def omniglot(*, root: str | None = None) -> Manifest:
    """Handwritten characters of 50 alphabets: 1,623 characters drawn by 20 people each.

    Layouts: ``omniglot.zip`` + ``.tsv``, or the original folders ``images_background`` and
    ``images_evaluation``.

    Example:
        >>> omniglot(root="data/")  # doctest: +SKIP
    """
    copy = archive_copy("omniglot", root)
    if copy is not None:
        return copy
    folder = first_folder("omniglot", root, "images_background", ("omniglot", "omniglot-py", "."))
    paths = [f"{part}/{path}" for part in _PARTS for path in list_tree(str(folder / part))[0] if is_image(path)]
    parents = [path.rpartition("/")[0] for path in paths]
    columns: Columns = {
        "path": paths,
        "label": numbered(parents),
        "class_name": [parent.partition("/")[2].replace("/", " ") for parent in parents],
        "super_class": [parent.split("/")[1] for parent in parents],
        "split": [_PARTS[parent.partition("/")[0]] for parent in parents],
    }
    return from_columns("omniglot", columns, FolderSource(str(folder)))
