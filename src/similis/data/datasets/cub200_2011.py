"""CUB-200-2011. Wah, Branson, Welinder, Perona, Belongie: The Caltech-UCSD Birds-200-2011 Dataset, 2011."""

from __future__ import annotations

from similis.data.catalogue import Counts, archive_copy, first_folder, register_dataset
from similis.data.manifest import Manifest, from_columns
from similis.data.sources import FolderSource
from similis.data.table import Columns

TRAIN_CLASSES = 100


@register_dataset(
    paper="Wah, Branson, Welinder, Perona, Belongie: The Caltech-UCSD Birds-200-2011 Dataset, Caltech, 2011",
    counts={"train": Counts(5864, 100), "test": Counts(5924, 100)},
)
def cub200_2011(*, root: str | None = None) -> Manifest:
    """Birds: 200 species, about 60 photos each; species 1 to 100 train, 101 to 200 test.

    Layouts: ``cub200_2011.zip`` + ``.tsv``, or the original ``CUB_200_2011/`` with ``images.txt``.

    Example:
        >>> cub200_2011(root="data/")  # doctest: +SKIP
    """
    copy = archive_copy("cub200_2011", root)
    if copy is not None:
        return copy
    folder = first_folder("cub200_2011", root, "images.txt", ("CUB_200_2011", "cub200_2011", "."))
    paths = dict(line.split() for line in (folder / "images.txt").read_text().splitlines() if line)
    classes = dict(line.split() for line in (folder / "image_class_labels.txt").read_text().splitlines() if line)
    names = dict(line.split(maxsplit=1) for line in (folder / "classes.txt").read_text().splitlines() if line)
    numbers = sorted(paths, key=int)
    labels = [int(classes[number]) - 1 for number in numbers]
    members = [paths[number] for number in numbers]
    columns: Columns = {
        "path": members,
        "label": labels,
        "class_name": [names[classes[number]].partition(".")[2].replace("_", " ") for number in numbers],
        "split": ["train" if label < TRAIN_CLASSES else "test" for label in labels],
    }
    return from_columns("cub200_2011", columns, FolderSource(str(folder / "images")))
