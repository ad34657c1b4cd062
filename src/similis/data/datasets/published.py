"""Published data sets in their original layouts; a copy ``NAME.zip`` with ``NAME.tsv`` is read before these."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from similis.data.catalogue import Counts, absent, find_folder, register_dataset
from similis.data.manifest import Manifest, from_columns
from similis.data.readers.folder import is_image, list_tree
from similis.data.sources import FolderSource
from similis.data.table import Columns, number_classes
from similis.values import import_extra

PARTITION = "list_eval_partition.txt"  # of In-shop
OMNIGLOT_PARTS = {"images_background": "train", "images_evaluation": "test"}


@register_dataset(
    paper="Wah, Branson, Welinder, Perona, Belongie: The Caltech-UCSD Birds-200-2011 Dataset, Caltech, 2011",
    counts={"train": Counts(5864, 100), "test": Counts(5924, 100)},
)
def cub200_2011(*, root: str | None = None) -> Manifest:
    """Birds: 200 species, about 60 photos each; species 1 to 100 train, 101 to 200 test."""
    folder = find_folder("cub200_2011", root, "images.txt", ("CUB_200_2011", "cub200_2011", "."))
    paths, classes, names = (
        dict(line.split(maxsplit=1) for line in read_lines(folder / f"{name}.txt"))
        for name in ("images", "image_class_labels", "classes")
    )
    numbers = sorted(paths, key=int)
    labels = [int(classes[number]) - 1 for number in numbers]
    columns: Columns = {
        "path": [paths[number] for number in numbers],
        "label": labels,
        "class_name": [names[classes[number]].partition(".")[2].replace("_", " ") for number in numbers],
        "split": ["train" if label < 100 else "test" for label in labels],
    }
    return from_columns("cub200_2011", columns, FolderSource(str(folder / "images")))


@register_dataset(
    paper="Krause, Stark, Deng, Fei-Fei: 3D Object Representations for Fine-Grained Categorization, 3dRR 2013",
    counts={"train": Counts(8054, 98), "test": Counts(8131, 98)},
)
def cars196(*, root: str | None = None) -> Manifest:
    """Cars: 196 models, about 82 photos each; models 1 to 98 train, 99 to 196 test."""
    folder = find_folder("cars196", root, "cars_annos.mat", ("cars196", "CARS196", "cars", "."))
    marks = import_extra("scipy.io", "sklearn").loadmat(str(folder / "cars_annos.mat"), squeeze_me=True)
    labels = [int(mark["class"]) - 1 for mark in marks["annotations"]]
    columns: Columns = {
        "path": [str(mark["relative_im_path"]) for mark in marks["annotations"]],
        "label": labels,
        "class_name": [str(marks["class_names"][label]) for label in labels],
        "split": ["train" if label < 98 else "test" for label in labels],
    }
    return from_columns("cars196", columns, FolderSource(str(folder)))


@register_dataset(
    paper="Oh Song, Xiang, Jegelka, Savarese: Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016",
    counts={"train": Counts(59551, 11318), "test": Counts(60502, 11316)},
)
def sop(*, root: str | None = None) -> Manifest:
    """Products of an auction site: 22,634 items, 5.3 photos each, in 12 super-classes."""
    folder = find_folder("sop", root, "Ebay_train.txt", ("Stanford_Online_Products", "sop", "."))
    rows = [(part, *line.split()) for part in ("train", "test") for line in read_lines(folder / f"Ebay_{part}.txt")[1:]]
    parts, _, items, _, paths = (list(column) for column in zip(*rows, strict=True))
    columns: Columns = {
        "path": paths,
        "label": number_classes(items),
        "class_name": [f"item {item}" for item in items],
        "super_class": [path.partition("/")[0].removesuffix("_final") for path in paths],
        "split": parts,
    }
    return from_columns("sop", columns, FolderSource(str(folder)))


@register_dataset(
    paper="Liu, Luo, Qiu, Wang, Tang: DeepFashion: Powering Robust Clothes Recognition and Retrieval, CVPR 2016",
    counts={"train": Counts(25882, 3997), "test": Counts(26830, 3985)},
)
def inshop(*, root: str | None = None) -> Manifest:
    """Clothes: 3,997 items to train on; 14,218 queries are answered from a gallery of 12,612 photos."""
    tops = ("In-shop", "inshop", "In-shop Clothes Retrieval Benchmark", ".")
    folders = tuple(f"{top}/{below}" for top in tops for below in ("Eval", "Anno", "."))
    lists = find_folder("inshop", root, PARTITION, folders)
    top = lists.parent if lists.name in ("Eval", "Anno") else lists
    images = top / "Img" if (top / "Img").is_dir() else top
    paths, items, states = zip(*(line.split() for line in read_lines(lists / PARTITION)[2:]), strict=True)
    columns: Columns = {
        "path": paths,
        "label": number_classes(items),
        "class_name": items,
        "super_class": ["/".join(PurePosixPath(path).parts[1:3]) for path in paths],
        "role": ["both" if state == "train" else state for state in states],
        "split": ["train" if state == "train" else "test" for state in states],
    }
    return from_columns("inshop", columns, FolderSource(str(images)))


@register_dataset(
    paper="Lake, Salakhutdinov, Tenenbaum: Human-level concept learning through probabilistic program induction, 2015",
    counts={"train": Counts(19280, 964), "test": Counts(13180, 659)},
)
def omniglot(*, root: str | None = None) -> Manifest:
    """Handwritten characters of 50 alphabets: 1,623 characters drawn by 20 people each."""
    folder = find_folder("omniglot", root, "images_background", ("omniglot", "omniglot-py", "."))
    paths = [f"{part}/{path}" for part in OMNIGLOT_PARTS for path in list_tree(str(folder / part))[0] if is_image(path)]
    parents = [path.rpartition("/")[0] for path in paths]
    columns: Columns = {
        "path": paths,
        "label": number_classes(parents),
        "class_name": [parent.partition("/")[2].replace("/", " ") for parent in parents],
        "super_class": [parent.split("/")[1] for parent in parents],
        "split": [OMNIGLOT_PARTS[parent.partition("/")[0]] for parent in parents],
    }
    return from_columns("omniglot", columns, FolderSource(str(folder)))


@register_dataset(
    paper="drawings of several vendors, licences by vendor",
    counts={"train": Counts(5208, 981), "test": Counts(5192, 981)},
)
def emoji(*, root: str | None = None) -> Manifest:
    """Emoji: 1,962 classes, 5.3 drawings each; every second class is test. Only as ``emoji.zip`` + ``.tsv``."""
    raise absent("emoji", root)


@register_dataset(
    paper="Klasson, Zhang, Kjellstrom: A Hierarchical Grocery Store Image Dataset, WACV 2019",
    counts={"all": Counts(5421, 81)},
)
def grocery(*, root: str | None = None) -> Manifest:
    """Groceries: phone photos of 81 products; only as ``grocery.zip`` + ``.tsv``, its classes are split by a seed."""
    raise absent("grocery", root)


def read_lines(file: Path) -> list[str]:
    """The lines of a text file that hold something."""
    return [line for text in file.read_text().splitlines() if (line := text.strip())]
