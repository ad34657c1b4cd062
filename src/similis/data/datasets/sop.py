"""Stanford Online Products. Oh Song, Xiang, Jegelka, Savarese: Lifted Structured Feature Embedding, CVPR 2016."""

from __future__ import annotations

from similis.data.catalogue import Counts, archive_copy, first_folder, register_dataset
from similis.data.manifest import Manifest, from_columns
from similis.data.sources import FolderSource
from similis.data.table import Columns, numbered


@register_dataset(
    paper="Oh Song, Xiang, Jegelka, Savarese: Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016",
    counts={"train": Counts(59551, 11318), "test": Counts(60502, 11316)},
)
def sop(*, root: str | None = None) -> Manifest:
    """Products of an auction site: 22,634 items, 5.3 photos each, in 12 super-classes.

    Layouts: ``sop.zip`` + ``.tsv``, or the original ``Stanford_Online_Products/`` with ``Ebay_train.txt``.

    Example:
        >>> sop(root="data/")  # doctest: +SKIP
    """
    copy = archive_copy("sop", root)
    if copy is not None:
        return copy
    folder = first_folder("sop", root, "Ebay_train.txt", ("Stanford_Online_Products", "sop", "."))
    items: list[str] = []
    paths: list[str] = []
    parts: list[str] = []
    for part in ("train", "test"):
        for line in (folder / f"Ebay_{part}.txt").read_text().splitlines()[1:]:
            _, item, _, path = line.split()
            items.append(item)
            paths.append(path)
            parts.append(part)
    columns: Columns = {
        "path": paths,
        "label": numbered(items),
        "class_name": [f"item {item}" for item in items],
        "super_class": [path.partition("/")[0].removesuffix("_final") for path in paths],
        "split": parts,
    }
    return from_columns("sop", columns, FolderSource(str(folder)))
