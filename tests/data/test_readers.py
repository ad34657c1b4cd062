"""Readers: parts and optional columns, URLs and archives, vectors; the layouts are in ``test_content``."""

import csv
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from similis.data.catalogue import count_parts
from similis.data.open_data import open_data
from similis.data.readers.parquet import readable
from similis.data.table import is_arrow, standardise_columns
from similis.values import DataError
from tests.data.pictures import picture, write, write_zip

PATHS = ["cat/1.png", "cat/2.png", "dog/1.png", "eel/1.png", "eel/2.png", "eel/3.png"]
NAMES = ["cat", "cat", "dog", "eel", "eel", "eel"]
FILES = {path: picture(seed) for seed, path in enumerate(PATHS)}


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "pets", FILES)


def write_table(place, delimiter=",", paths=PATHS, **more):
    columns = {"path": paths, "class_name": NAMES, **more}
    with Path(place).open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return str(place)


def test_fingerprint_does_not_know_the_place_but_knows_the_data(folder, tmp_path):
    base = open_data(str(folder)).fingerprint()
    assert open_data(str(write(tmp_path / "elsewhere", FILES))).fingerprint() == base
    other = dict(FILES)
    other["eel/4.png"] = other.pop("eel/3.png")
    assert open_data(str(write(tmp_path / "renamed", other))).fingerprint() != base
    larger = FILES | {"dog/1.png": picture(9, width=99)}
    assert open_data(str(write(tmp_path / "larger", larger))).fingerprint() != base


@pytest.mark.slow
def test_images_of_parquet_stay_out_of_memory(tmp_path):
    images = [np.random.default_rng(row).bytes(2**19) for row in range(96)]
    pq.write_table(pa.table({"bytes": images, "label": [0, 1] * 48}), tmp_path / "large.parquet", row_group_size=4)
    script = (
        "import pyarrow, sys; from similis.data.open_data import open_data; data = open_data(sys.argv[1]); "
        "print(pyarrow.default_memory_pool().max_memory(), data.table.nbytes, len(data.read_bytes(17)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "large.parquet")], capture_output=True, text=True, check=True
    )
    peak, table, image = map(int, done.stdout.split())
    assert (table < 10_000, image) == (True, 2**19)
    assert peak < 24 * 2**20, peak  # a batch of the copy, not the 48 MB of all


def test_urls_stream_without_local_files():
    system = fsspec.filesystem("memory")
    for path, data in FILES.items():
        system.pipe(f"/pets/{path}", data)
    lines = "path,class_name\n" + "\n".join(f"{p},{n}" for p, n in zip(PATHS, NAMES, strict=True))
    system.pipe("/pets/pets.csv", lines.encode())
    manifests = [open_data("memory://pets"), open_data("memory://pets/pets.csv")]
    for manifest in manifests:
        assert [manifest.read_bytes(row) for row in range(6)] == list(FILES.values())
    assert manifests[0].fingerprint() == manifests[1].fingerprint()


def test_zip_behind_a_url(tmp_path):
    place = write_zip(tmp_path / "pets.zip", FILES)
    fsspec.filesystem("memory").pipe("/zips/pets.zip", Path(place).read_bytes())
    assert open_data("memory://zips/pets.zip").read_bytes(3) == FILES["eel/1.png"]


def test_train_and_test_folders_are_a_split(tmp_path):
    files = {f"train/{path}": data for path, data in FILES.items()} | {"test/fox/1.png": picture(8)}
    manifest = open_data(str(write(tmp_path, files)))
    assert manifest.class_names == ["cat", "dog", "eel", "fox"]
    assert manifest.values("split").count("test") == 1
    assert count_parts(manifest)["train"].classes == 3


def test_class_ids_are_ordered_as_numbers_and_quotes_are_kept(tmp_path):
    write(tmp_path, {f"{n}.png": picture(n) for n in (1, 2, 3)})
    (tmp_path / "t.tsv").write_text('file\tclass_id\tclass_name\n1.png\t10\t"ten\n2.png\t9\tnine\n3.png\t10\t"ten\n')
    manifest = open_data(str(tmp_path / "t.tsv"))
    assert manifest.labels.tolist() == [1, 0, 1]
    assert manifest.class_names == ["nine", '"ten']
    for names in (("12_3", "1_23", "123"), ("1", "01", "001")):
        (tmp_path / "u.csv").write_text("file,class_id\n" + "".join(f"{n}.png,{c}\n" for n, c in enumerate(names, 1)))
        assert sorted(open_data(str(tmp_path / "u.csv")).labels.tolist()) == [0, 1, 2]
    assert standardise_columns({"path": ["1", "2"], "label": [["a"], ["b"]]}, "lists")["label"] == [0, 1]


def test_optional_columns_survive(folder):
    roles, groups = ["query"] * 2 + ["gallery"] * 3 + ["both"], list("aabbcc")
    manifest = open_data(write_table(folder / "roles.csv", role=roles, group=groups, coarse_name=list("xyxyxy")))
    rows = manifest.ids
    assert manifest.rows_of("query", rows).tolist() == [0, 1, 5]
    assert manifest.rows_of("gallery", rows).tolist() == [2, 3, 4, 5]
    assert manifest.numbers("group").tolist() == [0, 0, 1, 1, 2, 2]
    assert manifest.values("super_class") == list("xyxyxy")


def test_an_archive_that_lacks_images_of_its_table_is_refused(tmp_path):
    write_table(tmp_path / "short.tsv", delimiter="\t", paths=["cat/9.png", *PATHS[1:]])
    with pytest.raises(DataError, match=r"1 images .* missing in"):
        open_data(write_zip(tmp_path / "short.zip", FILES))


@pytest.mark.parametrize("kind", ["fixed", "list", "large", "double"])
def test_vectors_stay_arrow_until_they_are_a_tensor(tmp_path, kind):
    rows, size = 400, 256
    values = np.random.default_rng(0).standard_normal((rows, size)).astype(np.float32)
    flat = pa.array(values.ravel(), pa.float64() if kind == "double" else pa.float32())
    steps = np.arange(0, rows * size + 1, size)
    column = {
        "fixed": lambda: pa.FixedSizeListArray.from_arrays(flat, size),
        "large": lambda: pa.LargeListArray.from_arrays(pa.array(steps, pa.int64()), flat),
    }.get(kind, lambda: pa.ListArray.from_arrays(pa.array(steps, pa.int32()), flat))()
    place = tmp_path / "v.parquet"
    pq.write_table(pa.table({"vector": column, "label": [row % 7 for row in range(rows)]}), place)
    assert np.array_equal(open_data(str(place)).vectors.numpy(), values)
    assert is_arrow(readable(pa.chunked_array([column])))  # no Python float for each number
