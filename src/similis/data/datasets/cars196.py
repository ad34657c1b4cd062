"""CARS196. Krause, Stark, Deng, Fei-Fei: 3D Object Representations for Fine-Grained Categorization, 3dRR 2013."""

from __future__ import annotations

from similis.data.catalogue import Counts, archive_copy, first_folder, register_dataset
from similis.data.manifest import Manifest, from_columns
from similis.data.sources import FolderSource
from similis.data.table import Columns
from similis.values import import_extra

TRAIN_CLASSES = 98


@register_dataset(
    paper="Krause, Stark, Deng, Fei-Fei: 3D Object Representations for Fine-Grained Categorization, 3dRR 2013",
    counts={"train": Counts(8054, 98), "test": Counts(8131, 98)},
)
def cars196(*, root: str | None = None) -> Manifest:
    """Cars: 196 models, about 82 photos each; models 1 to 98 train, 99 to 196 test.

    Layouts: ``cars196.zip`` + ``.tsv``, or the original ``cars_annos.mat`` beside ``car_ims/``.

    Example:
        >>> cars196(root="data/")  # doctest: +SKIP
    """
    copy = archive_copy("cars196", root)
    if copy is not None:
        return copy
    folder = first_folder("cars196", root, "cars_annos.mat", ("cars196", "CARS196", "cars", "."))
    marks = import_extra("scipy.io").loadmat(str(folder / "cars_annos.mat"), squeeze_me=True)
    names = [str(name) for name in marks["class_names"]]
    paths = [str(mark["relative_im_path"]) for mark in marks["annotations"]]
    labels = [int(mark["class"]) - 1 for mark in marks["annotations"]]
    columns: Columns = {
        "path": paths,
        "label": labels,
        "class_name": [names[label] for label in labels],
        "split": ["train" if label < TRAIN_CLASSES else "test" for label in labels],
    }
    return from_columns("cars196", columns, FolderSource(str(folder)))
