"""Identity is content: equal sizes, names and times do not make two data sets one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from similis.data import content
from similis.data.open_data import open_data
from similis.data.splits import split_data
from tests.cli.test_main import ended
from tests.data.pictures import picture, write, write_zip

PATHS = [f"class{label}/{number}.ppm" for label in range(6) for number in range(2)]
NAMES = [path.partition("/")[0] for path in PATHS]
KINDS = sorted(set(NAMES))
FILES = {path: picture(seed, form="PPM") for seed, path in enumerate(PATHS)}  # all of one size
SWAPPED = dict(zip(PATHS, [*list(FILES.values())[1:], FILES[PATHS[0]]], strict=True))
PARQUET = ("parquet-of-paths", "parquet-of-bytes", "parquet-of-records")
LAYOUTS = ("folder", "csv", "tsv", "zip", "zip-with-table", *PARQUET, "shards", "url")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder of the test's own, which trusts files of any age."""
    monkeypatch.setenv(content.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(content, "SETTLED_SECONDS", 0.0)
    return tmp_path / "cache"


def write_layout(root: Path, layout: str, files: dict[str, bytes]) -> str:
    """The same images in one of the layouts; returns what is opened."""
    place = root / "photos"
    write(place, files)
    table = "path,class_name\n" + "".join(f"{path},{name}\n" for path, name in zip(PATHS, NAMES, strict=True))
    if layout in ("csv", "tsv"):
        (place / f"list.{layout}").write_text(table if layout == "csv" else table.replace(",", "\t"))
        return str(place / f"list.{layout}")
    if layout.startswith("zip"):
        if layout == "zip-with-table":
            (root / "photos.csv").write_text(table)
        return write_zip(root / "photos.zip", files)
    if layout.startswith("parquet"):
        columns = {"path": PATHS, "class_name": NAMES}
        if layout == "parquet-of-bytes":
            columns = {"path": PATHS, "class": NAMES, "bytes": list(files.values())}
        if layout == "parquet-of-records":
            records = [{"bytes": image, "path": path} for path, image in files.items()]
            columns = {"image": records, "class_name": NAMES}
        pq.write_table(pa.table(columns), place / "list.parquet")
        return str(place / "list.parquet")
    if layout == "shards":
        return write_shards(root / "hub", files)
    if layout == "url":
        system = fsspec.filesystem("memory")
        for path, data in files.items():
            system.pipe(f"{root}/{path}", data)
        return f"memory:/{root}"
    return str(place)


def write_shards(place: Path, files: dict[str, bytes], rows: int = 8) -> str:
    """The pictures as Hugging Face datasets writes them: records, numbered classes, files of some rows each."""
    (place / "data").mkdir(parents=True)
    features = {"image": {"_type": "Image"}, "label": {"names": KINDS, "_type": "ClassLabel"}}
    names = {"huggingface": json.dumps({"info": {"features": features}})}
    records = [{"bytes": data, "path": path} for path, data in files.items()]
    labels = [KINDS.index(name) for name in NAMES]
    table = pa.table({"image": records, "label": labels}).replace_schema_metadata(names)
    for number in range(2):
        part = table.slice(number * rows, rows)
        pq.write_table(part, place / f"data/train-{number:05d}-of-00002.parquet", row_group_size=3)
    return str(place)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_contents_of_equal_size_are_other_data(tmp_path, layout):
    place = write_layout(tmp_path / "a", layout, FILES)
    first = open_data(place)
    assert open_data(place).fingerprint() == first.fingerprint()
    second = open_data(write_layout(tmp_path / "b", layout, SWAPPED))
    assert second.fingerprint() != first.fingerprint()
    assert split_data(second).fingerprint != split_data(first).fingerprint


def test_every_layout_of_the_same_contents_is_the_same_data(tmp_path):
    opened = [open_data(write_layout(tmp_path / layout, layout, FILES)) for layout in LAYOUTS]
    for manifest in opened:
        assert manifest.labels.tolist() == [row // 2 for row in range(12)]
        assert manifest.ids.tolist() == list(range(12))
        assert manifest.class_names == KINDS
        assert [manifest.read_bytes(row) for row in range(12)] == list(FILES.values())
    assert len({manifest.fingerprint() for manifest in opened}) == 1


@pytest.mark.parametrize("layout", ["folder", "shards"])
def test_select_keeps_ids_and_bytes(tmp_path, layout):
    part = open_data(write_layout(tmp_path, layout, FILES)).select([11, 2])
    assert part.ids.tolist() == [11, 2]
    assert part.read_bytes(0) == FILES[PATHS[11]]
    assert part.select([1]).read_bytes(0) == FILES[PATHS[2]]


@pytest.mark.parametrize("layout", ["folder", "csv", "zip", "zip-with-table", "parquet-of-records", "url"])
def test_contents_changed_in_place_are_noticed(tmp_path, layout):
    place = write_layout(tmp_path, layout, FILES)
    before = open_data(place)
    assert before.read_bytes(0) == FILES[PATHS[0]]
    write_layout(tmp_path, layout, SWAPPED)
    after = open_data(place)
    assert after.fingerprint() != before.fingerprint()
    assert after.read_bytes(0) == SWAPPED[PATHS[0]]
    assert open_data(write_layout(tmp_path / "new", layout, SWAPPED)).fingerprint() == after.fingerprint()


def test_a_time_set_back_does_not_hide_a_change(tmp_path):
    place = write_layout(tmp_path, "folder", FILES)
    before = open_data(place).fingerprint()
    changed = Path(place) / PATHS[0]
    times = changed.stat()
    changed.write_bytes(SWAPPED[PATHS[0]])
    os.utime(changed, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert changed.stat().st_ino == times.st_ino
    assert open_data(place).fingerprint() != before


def forge(cache: Path) -> None:
    """Give every kept hash another value, as if the files had been others when they were read."""
    for file in cache.rglob("*.json"):
        kept = json.loads(file.read_text())
        forged = {name: [version, f"{row:032x}"] for row, (name, (version, _)) in enumerate(kept.items())}
        file.write_text(json.dumps(forged))


@pytest.mark.parametrize("layout", ["folder", "zip", "parquet-of-bytes", "url"])
def test_contents_are_read_once_and_again_when_asked_to_verify(tmp_path, cache, layout):
    place = write_layout(tmp_path, layout, FILES)
    right = open_data(place).fingerprint()
    forge(cache)
    assert open_data(place).fingerprint() != right  # so it was not read again
    assert open_data(place, verify=True).fingerprint() == right
    assert open_data(place).fingerprint() == right  # and the kept hashes are right again


@pytest.mark.parametrize("verb", ["data show", "data check", "train"])
def test_verify_reads_contents_again(tmp_path, cache, verb):
    place = write_layout(tmp_path, "folder", FILES)
    small = ["--backbone", "small_conv", "--size", "16", "--dim", "8", "--epochs", "0", "--no-pictures"]
    words = [*verb.split(), place, *([*small, "--runs", str(tmp_path / "runs")] if verb == "train" else [])]
    right = open_data(place).fingerprint()
    forge(cache)
    for option, expected in (((), False), (("--verify",), True)):
        assert ended([*words, *option]) == 0
        assert (open_data(place).fingerprint() == right) is expected
    if verb == "train":
        assert len(list((tmp_path / "runs").glob("*/result.json"))) == 2


def test_files_written_a_moment_ago_are_read_again(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(content, "SETTLED_SECONDS", 3600.0)
    place = write_layout(tmp_path, "folder", FILES)
    open_data(place)
    assert not list(cache.rglob("*.json"))


@pytest.mark.parametrize("kept", [b"", b"\xff\xfe", b"[1, 2]", b'{"class0/0.ppm": 3}', b'{"class0/0.ppm": ["a"]}'])
def test_a_damaged_cache_is_passed_over(tmp_path, cache, kept):
    place = write_layout(tmp_path, "folder", FILES)
    right = open_data(place).fingerprint()
    (file,) = cache.rglob("*.json")
    file.write_bytes(kept)
    assert open_data(place).fingerprint() == right


def test_a_cache_that_cannot_be_written_changes_nothing(tmp_path, monkeypatch):
    place = write_layout(tmp_path, "folder", FILES)
    right = open_data(place).fingerprint()
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(content.VARIABLE, str(tmp_path / "file"))
    assert open_data(place).fingerprint() == right


def test_the_cache_lies_in_the_users_cache_folder(monkeypatch):
    monkeypatch.delenv(content.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert content.cache_file("/photos").parent == Path("/caches/similis/content")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert content.cache_file("/photos").parent == Path("/home/me/.cache/similis/content")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user without a home")
def test_a_user_without_a_home_has_a_cache():
    script = "import os; from similis.data.content import cache_file; os.setuid(54321); print(cache_file('/photos'))"
    bare = {key: value for key, value in os.environ.items() if key not in ("HOME", "XDG_CACHE_HOME", content.VARIABLE)}
    done = subprocess.run([sys.executable, "-c", script], env=bare, capture_output=True, text=True, check=True)
    assert Path(done.stdout).parts[-3:-1] == ("similis", "content")
