"""In-shop Clothes Retrieval. Liu, Luo, Qiu, Wang, Tang: DeepFashion, CVPR 2016."""

from __future__ import annotations

from pathlib import PurePosixPath

from similis.data.catalogue import Counts, archive_copy, first_folder, register_dataset
from similis.data.manifest import Manifest, from_columns
from similis.data.sources import FolderSource
from similis.data.table import Columns, numbered

_LIST = "list_eval_partition.txt"


@register_dataset(
    paper="Liu, Luo, Qiu, Wang, Tang: DeepFashion: Powering Robust Clothes Recognition and Retrieval, CVPR 2016",
    counts={"train": Counts(25882, 3997), "test": Counts(26830, 3985)},
)
def inshop(*, root: str | None = None) -> Manifest:
    """Clothes: 3,997 items to train on; 14,218 queries are answered from a gallery of 12,612 photos.

    Layouts: ``inshop.zip`` + ``.tsv`` (with a column ``role``), or the original partition list beside
    the folder ``img`` (or ``Img/img``).

    Example:
        >>> inshop(root="data/")  # doctest: +SKIP
    """
    copy = archive_copy("inshop", root)
    if copy is not None:
        return copy
    tops = ("In-shop", "inshop", "In-shop Clothes Retrieval Benchmark", ".")
    folders = tuple(f"{top}/{below}" for top in tops for below in ("Eval", "Anno", "."))
    lists = first_folder("inshop", root, _LIST, folders)
    top = lists.parent if lists.name in ("Eval", "Anno") else lists
    images = top / "Img" if (top / "Img").is_dir() else top
    lines = [line.split() for line in (lists / _LIST).read_text().splitlines()[2:] if line.strip()]
    paths, items, states = ([line[column] for line in lines] for column in range(3))
    columns: Columns = {
        "path": paths,
        "label": numbered(items),
        "class_name": items,
        "super_class": ["/".join(PurePosixPath(path).parts[1:3]) for path in paths],
        "role": ["both" if state == "train" else state for state in states],
        "split": ["train" if state == "train" else "test" for state in states],
    }
    return from_columns("inshop", columns, FolderSource(str(images)))
