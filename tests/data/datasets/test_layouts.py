"""Known data sets in their original layouts, in small; counts that differ need a yes."""

import sys

import numpy as np
import pytest
import scipy.io

from similis.data.catalogue import Counts, check_counts, count_parts, known
from similis.data.open_data import open_data
from similis.values import DataError, MissingExtraError
from tests.data.pictures import picture, write


def cub(root):
    pictures = {
        f"CUB_200_2011/images/{name}.jpg": picture(n) for n, name in enumerate(["001.A_b/x", "100.C/y", "101.D/z"])
    }
    lists = {
        "images.txt": "1 001.A_b/x.jpg\n2 100.C/y.jpg\n10 101.D/z.jpg\n",
        "image_class_labels.txt": "1 1\n2 100\n10 101\n",
        "classes.txt": "".join(f"{n} {n:03d}.{name}\n" for n, name in [(1, "A_b"), (100, "C"), (101, "D")]),
    }
    write(root, pictures | {f"CUB_200_2011/{name}": text.encode() for name, text in lists.items()})


def cars(root):
    write(root, {f"cars196/car_ims/{n}.jpg": picture(n) for n in (1, 2, 3)})
    kind = [("relative_im_path", "O"), ("class", "O")]
    marks = np.array([(f"car_ims/{n}.jpg", label) for n, label in [(1, 1), (2, 98), (3, 99)]], dtype=kind)
    names = np.array([f"Car {n}" for n in range(1, 197)], dtype=object)
    scipy.io.savemat(root / "cars196/cars_annos.mat", {"annotations": marks, "class_names": names})


def sop(root):
    top = "Stanford_Online_Products"
    head = "image_id class_id super_class_id path\n"
    lists = {
        f"{top}/Ebay_train.txt": head + "1 1 1 bicycle_final/a.JPG\n2 1 1 bicycle_final/b.JPG\n",
        f"{top}/Ebay_test.txt": head + "3 11319 2 chair_final/c.JPG\n",
    }
    pictures = {f"{top}/{path}.JPG": picture(1) for path in ("bicycle_final/a", "bicycle_final/b", "chair_final/c")}
    write(root, pictures | {path: text.encode() for path, text in lists.items()})


def inshop(root):
    paths = [f"img/WOMEN/Dresses/id_{n:08d}/0{k}.jpg" for n, k in [(1, 1), (2, 1), (2, 2)]]
    lines = [f"{p} {p.split('/')[3]} {s}" for p, s in zip(paths, ("train", "query", "gallery"), strict=True)]
    text = "3\nimage_name item_id evaluation_status\n" + "\n".join(lines)
    files = {f"In-shop/Img/{path}": picture(n) for n, path in enumerate(paths)}
    write(root, files | {"In-shop/Eval/list_eval_partition.txt": text.encode()})


def omniglot(root):
    parts = [("images_background", "Greek"), ("images_evaluation", "Tengwar")]
    write(
        root, {f"omniglot/{p}/{a}/character0{c}/{n}.png": picture(n) for p, a in parts for c in (1, 2) for n in (1, 2)}
    )


@pytest.mark.parametrize(
    ("name", "make", "labels", "splits", "names"),
    [
        ("cub200_2011", cub, [0, 99, 100], ["train", "train", "test"], ["A b", "C", "D"]),
        ("cars196", cars, [0, 97, 98], ["train", "train", "test"], ["Car 1", "Car 98", "Car 99"]),
        ("sop", sop, [0, 0, 1], ["train", "train", "test"], ["item 1", "item 11319"]),
        ("inshop", inshop, [0, 1, 1], ["train", "test", "test"], ["id_00000001", "id_00000002"]),
        ("omniglot", omniglot, [0, 0, 1, 1, 2, 2, 3, 3], ["train"] * 4 + ["test"] * 4,
         ["Greek character01", "Greek character02", "Tengwar character01", "Tengwar character02"]),
    ],
)  # fmt: skip
def test_original_layouts(tmp_path, name, make, labels, splits, names):
    make(tmp_path)
    with pytest.raises(DataError, match=r"expected \d+ images of \d+ classes, found \d+ images"):
        open_data(name, root=str(tmp_path))
    manifest = open_data(name, root=str(tmp_path), allow_counts=True)
    assert manifest.labels.tolist() == labels
    assert manifest.values("split") == splits
    assert manifest.class_names == names
    assert all(manifest.read_bytes(row) for row in range(len(manifest)))


def test_cars_without_scipy_name_the_smallest_extra_that_brings_it(tmp_path, monkeypatch):
    cars(tmp_path)
    monkeypatch.setitem(sys.modules, "scipy.io", None)  # what an absent package looks like to import
    with pytest.raises(MissingExtraError, match=r"\.\[sklearn\]"):
        open_data("cars196", root=str(tmp_path))


def test_inshop_has_roles(tmp_path):
    inshop(tmp_path)
    manifest = open_data("inshop", root=str(tmp_path), allow_counts=True)
    assert manifest.values("role") == ["both", "query", "gallery"]


def test_official_counts():
    """The numbers of the literature, once more and independently."""
    table = {
        "cub200_2011": (5864, 100, 5924, 100), "cars196": (8054, 98, 8131, 98), "sop": (59551, 11318, 60502, 11316),
        "inshop": (25882, 3997, 14218 + 12612, 3985), "omniglot": (964 * 20, 964, 659 * 20, 659),
    }  # fmt: skip
    for name, (train, train_classes, test, test_classes) in table.items():
        assert known.get(name).counts == {"train": Counts(train, train_classes), "test": Counts(test, test_classes)}


def test_right_counts_pass_and_wrong_ones_are_told():
    manifest = open_data("synthetic?classes=4&images=3&size=8")
    right = {"train": Counts(6, 2), "test": Counts(6, 2)}
    assert count_parts(manifest) == right
    check_counts("x", manifest, right)
    with pytest.raises(
        DataError, match=r"train: expected 7 images of 2 classes, found 6 images of 2 classes.*allow_counts"
    ):
        check_counts("x", manifest, right | {"train": Counts(7, 2)})


def test_absent_data_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("SIMILIS_DATA", raising=False)
    with pytest.raises(DataError, match="SIMILIS_DATA"):
        open_data("cub200_2011")
    with pytest.raises(DataError, match=r"cub200_2011\.zip with"):
        open_data("cub200_2011", root=str(tmp_path))
    for name in ("emoji", "grocery"):
        with pytest.raises(DataError, match=f"{name} is not in"):
            open_data(name, root=str(tmp_path))
    monkeypatch.setenv("SIMILIS_DATA", str(tmp_path / "none"))
    with pytest.raises(DataError, match="does not exist"):
        open_data("sop")
