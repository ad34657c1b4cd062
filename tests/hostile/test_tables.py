"""Tables in odd encodings, with missing columns and values, cut short and with flipped bytes."""

import io
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from similis.data.open_data import open_data
from similis.values import DataError
from tests.data.pictures import picture, write
from tests.hostile.refusals import check_refused, read_data
from tests.hostile.test_images import flip

IMAGES = {
    f"{name}{number}.png": picture(seed) for seed, (name, number) in enumerate((n, k) for n in "abcdef" for k in "12")
}
HEADER = "path,label"
ROWS = [f"{path},{path[0]}" for path in IMAGES]
GOOD = "\n".join([HEADER, *ROWS])

# name -> bytes of a CSV file, words of the answer (None: it is read)
CSV = {
    "plain": (GOOD.encode(), None),
    "with a mark of its byte order": (GOOD.encode("utf-8-sig"), None),
    "with Windows line ends": (GOOD.replace("\n", "\r\n").encode(), None),
    "with old Mac line ends": (GOOD.replace("\n", "\r").encode(), None),
    "with names in UTF-8": (GOOD.replace(",a", ",é").encode(), None),
    "in Latin-1": (GOOD.replace(",a", ",é").encode("latin-1"), "is not UTF-8 (line 2); save it as UTF-8"),
    "in UTF-16": (GOOD.encode("utf-16"), "is not UTF-8 (line 1)"),
    "in UTF-16 without a mark": (GOOD.encode("utf-16-le"), "no column for the image"),
    "with semicolons": (GOOD.replace(",", ";").encode(), "no column for the image"),
    "empty": (b"", "the table is empty"),
    "of empty lines": (b"\n\n\n", "the table is empty"),
    "of zeros": (b"\0" * 100, "no column for the image"),
    "without rows": (HEADER.encode(), "holds no image"),
    "without a header": ("\n".join(ROWS).encode(), "no column for the image"),
    "without paths": (b"name,label\na,1\n", "no column for the image"),
    "without classes": (b"path\na1.png\n", "no column for the class"),
    "with a column twice": (GOOD.replace(HEADER, "label,label").encode(), "columns 'label' occur more than once"),
    "with a short row": ((GOOD + "\nf2.png").encode(), "line 14 has 1 fields"),
    "with a long row": ((GOOD + "\nf2.png,f,9").encode(), "line 14 has 3 fields"),
    "with an open quote": ((GOOD + '\n"f2.png,f').encode(), "line 14 has 1 fields"),
    "with a huge field": ((GOOD + "\n" + "x" * 200000 + ",f").encode(), "line 14 cannot be read"),
    "with an empty class": ((GOOD + "\nf2.png,").encode(), "1 rows have no class"),
    "with an empty path": ((GOOD + "\n,f").encode(), "1 rows have no path"),
    "with the path of a folder": ((GOOD + "\n.,f").encode(), "not a file"),
    "with a path that is too long": ((GOOD + "\n" + "x" * 5000 + ",f").encode(), "File name too long"),
    "with a zero in a path": ((GOOD + "\nx\0y.png,f").encode(), "null byte"),
    "with a missing file": ((GOOD + "\nf3.png,f").encode(), "1 of 13 images"),
    "with an unknown part": (b"path,label,split\na1.png,a,training\n", "allowed are ['train', 'test']"),
    "with an unknown role": (b"path,label,role\na1.png,a,answer\n", "allowed are ['query', 'gallery', 'both']"),
    "with a class over two lines": ((GOOD + '\na1.png,"f\nf"').encode(), None),
}  # fmt: skip


@pytest.mark.parametrize("case", CSV)
def test_csv(tmp_path, case):
    content, words = CSV[case]
    write(tmp_path, IMAGES | {"list.csv": content})
    said = read_data(tmp_path / "list.csv")
    assert (said is None) if words is None else (said is not None and words in said), said


def test_latin1_through_the_command_line(tmp_path, capsys):
    write(tmp_path, IMAGES | {"list.csv": CSV["in Latin-1"][0]})
    check_refused(capsys, tmp_path, tmp_path / "list.csv", "iconv -f latin1 -t utf-8")


PATHS, LABELS, BYTES = list(IMAGES), [path[0] for path in IMAGES], list(IMAGES.values())
VECTORS = [[float(row), 1.0] for row in range(len(PATHS))]


def last(values: list, value: object) -> list:
    """A column whose last value is another."""
    return [*values[:-1], value]


# name -> columns of a Parquet file, words of the answer (None: it is read)
PARQUET = {
    "of paths": ({"path": PATHS, "label": LABELS}, None),
    "of bytes": ({"bytes": BYTES, "label": LABELS}, None),
    "with large strings": ({"path": pa.array(PATHS, pa.large_string()), "label": LABELS}, None),
    "with dictionaries": ({"path": PATHS, "label": pa.array(LABELS).dictionary_encode()}, None),
    "with classes as floats": ({"path": PATHS, "label": [float(ord(label)) for label in LABELS]}, None),
    "with classes as truth values": ({"path": PATHS, "label": [label == "a" for label in LABELS]}, None),
    "with a class that is not a number": ({"path": PATHS, "label": last([1.0] * 12, math.nan)}, "1 rows have no class"),
    "with an infinite class": ({"path": PATHS, "label": last([1.0] * 12, math.inf)}, "1 rows have no class"),
    "with a missing class": ({"path": PATHS, "label": last(LABELS, None)}, "1 rows have no class"),
    "with a missing name": ({"path": PATHS, "label": LABELS, "class_name": last(LABELS, None)}, None),
    "with a missing path": ({"path": last(PATHS, None), "label": LABELS}, "1 rows have no path"),
    "with missing paths beside bytes": ({"path": last(PATHS, None), "bytes": BYTES, "label": LABELS}, None),
    "with missing bytes": ({"bytes": last(BYTES, None), "label": LABELS}, "1 rows have no bytes"),
    "with empty bytes": ({"bytes": last(BYTES, b""), "label": LABELS}, "the file is empty"),
    "with text for bytes": ({"bytes": PATHS, "label": LABELS}, "column 'bytes' holds str"),
    "with records for bytes": ({"bytes": [{"bytes": b"x"}] * 12, "label": LABELS}, "column 'bytes' holds dict"),
    "with whole numbers for paths": ({"path": list(range(12)), "label": LABELS}, "12 of 12 images"),
    "without rows": ({"path": pa.array([], pa.string()), "label": pa.array([], pa.string())}, "holds no image"),
    "without columns": ({}, "no column for the image"),
    "with a missing vector": ({"vector": last(VECTORS, None), "label": LABELS}, "have no vector, the first is row 11"),
    "with a text for a vector": ({"vector": LABELS, "label": LABELS}, "column 'vector'"),
    "with a missing part": ({"path": PATHS, "label": LABELS, "split": last(["train"] * 12, None)}, "allowed are"),
}  # fmt: skip


def write_parquet(place: Path, columns: dict) -> Path:
    pq.write_table(pa.table(columns), place)
    return place


@pytest.mark.parametrize("case", PARQUET)
def test_parquet(tmp_path, case):
    columns, words = PARQUET[case]
    write(tmp_path, IMAGES)
    said = read_data(write_parquet(tmp_path / "list.parquet", columns))
    assert (said is None) if words is None else (said is not None and words in said), said


@pytest.mark.parametrize(
    ("last_vector", "words"),
    [([1.0], "lengths"), ([1.0, math.nan], "not finite"), ([1.0, math.inf], "not finite"), ([1.0, None], "not finite"),
     ([1.0, 1e300], "not finite"), ([], "lengths")],
)  # fmt: skip
def test_vectors(tmp_path, capsys, last_vector, words):
    columns = {"vector": last(VECTORS, last_vector), "label": LABELS}
    place = write_parquet(tmp_path / "vectors.parquet", columns)
    with pytest.raises(DataError, match=words):
        open_data(str(place)).fingerprint()
    check_refused(capsys, tmp_path, place, words)


def test_fractions_are_classes_of_their_own(tmp_path):
    place = write_parquet(tmp_path / "v.parquet", {"vector": VECTORS[:4], "label": [0.2, 0.2, 0.7, 0.7]})
    manifest = open_data(str(place))
    assert manifest.labels.tolist() == [0, 0, 1, 1]
    assert manifest.class_names == ["0.2", "0.7"]


def test_two_columns_of_one_name(tmp_path):
    table = pa.Table.from_arrays([pa.array(PATHS), pa.array(LABELS), pa.array(LABELS)], ["path", "label", "label"])
    pq.write_table(table, tmp_path / "list.parquet")
    assert "'label' occur more than once" in read_data(tmp_path / "list.parquet")


def test_damaged_parquet(tmp_path):
    held = io.BytesIO()
    pq.write_table(pa.table({"bytes": BYTES, "label": LABELS}), held)
    whole, answers = held.getvalue(), []
    for data in [*(whole[: len(whole) * part // 30] for part in range(30)), *flip(whole, 30, seed=0, first=None)]:
        (tmp_path / "list.parquet").write_bytes(data)
        answers.append(read_data(tmp_path / "list.parquet"))
    assert all("write it again" in answer for answer in answers[:30])
    assert sum(answer is not None for answer in answers) > 30
