"""Bulk embedding: every image once in part files, whatever is killed, changed or unreadable; S3 on loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from similis.data.open_data import open_data
from similis.data.readers.part_files import list_part_files
from similis.model.bulk_embedding import embed_data
from similis.model.load import ModelChoice, pretrained
from similis.retrieval.evaluate import evaluate
from similis.values import DataError, UserError
from tests.cli.test_main import ended
from tests.data.pictures import picture, write

SOURCE = "synthetic?classes=8&images=5&size=16"
MODEL = ModelChoice("small_conv", weights=None, size=16, device="cpu")


@pytest.fixture(scope="module")
def data():
    return open_data(SOURCE)


def photos(folder: Path) -> Path:
    return write(folder, {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(6) for n in range(10)})


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def ids_of(folder: Path) -> list[str]:
    return [key for path in list_part_files(folder) for key in pq.read_table(path).column("id").to_pylist()]


def test_parts_hold_every_vector_with_its_attributes_and_open_as_a_source(data, tmp_path):
    seen = []
    done = embed_data(data, tmp_path / "out", MODEL, part_size=16, batch_size=4, on_part=seen.append)
    assert (done.images, done.dim, done.parts, done.embedded, done.skipped) == (40, 256, len(seen), 40, 0)
    assert sum(seen) == 40
    assert max(seen) <= 16
    first = pq.read_table(list_part_files(tmp_path / "out")[0])
    assert first.column_names[:2] == ["id", "vector"]
    assert {"path", "class_name", "split", "content"} <= set(first.column_names)
    assert str(first.schema.field("vector").type).startswith("fixed_size_list<")
    opened = open_data(tmp_path / "out")
    expected = pretrained("small_conv", weights=None, size=16, device="cpu").encode(data)
    torch.testing.assert_close(opened.vectors, expected, rtol=1e-6, atol=1e-6)
    assert ids_of(tmp_path / "out") == data.values("path")
    for column in ("path", "label", "class_name", "split"):
        assert opened.values(column) == data.values(column)


def test_the_command_evaluates_ready_vectors(data, tmp_path, capsys):
    embed_data(data, tmp_path, MODEL, part_size=16)
    capsys.readouterr()
    words = ["--model", "identity", "--weights", "none", "--part", "all", "--json"]
    assert ended(["evaluate", str(tmp_path), *words]) == 0
    (found,) = json.loads(capsys.readouterr().out)["models"]
    opened = open_data(tmp_path)
    assert found["recall@1"] == pytest.approx(evaluate(opened.vectors, opened.labels, ks=(1,)).means["recall@1"])
    assert found["dim"] == 256


def test_a_second_call_keeps_whole_parts_and_embeds_missing_and_damaged_ones(tmp_path):
    source, out = photos(tmp_path / "photos"), tmp_path / "out"
    done = embed_data(source, out, MODEL, part_size=8)
    before, (gone, damaged, *_) = files(out), list_part_files(out)
    lost = sum(pq.read_metadata(path).num_rows for path in (gone, damaged))
    gone.unlink()
    damaged.write_bytes(damaged.read_bytes()[:-100])
    (out / f".{gone.name}.node.7").write_bytes(b"half")
    again = embed_data(source, out, MODEL, part_size=8)
    assert (again.embedded, again.checksum) == (lost, done.checksum)
    after = files(out)
    assert set(after) == set(before)
    changed = {name for name in after if after[name] != before[name]} - {"_embedding.json"}
    assert changed == {gone.name, damaged.name}


def test_a_collection_is_followed_by_key_and_content(tmp_path):
    source, out = photos(tmp_path / "photos"), tmp_path / "out"
    embed_data(source, out, MODEL, part_size=8)
    before = files(out)
    write(source, {"kind2/new.png": picture(900), "kind4/3.png": picture(901)})
    (source / "kind0" / "0.png").unlink()
    os.utime(source / "kind5" / "5.png")  # another time, the same contents
    again = embed_data(source, out, MODEL, part_size=8)
    assert (again.images, again.embedded) == (60, 2)
    assert len(set(before) & set(files(out))) > again.parts // 2  # a change stays in its own part
    fresh = embed_data(source, tmp_path / "fresh", MODEL, part_size=8)
    assert ids_of(out) == ids_of(tmp_path / "fresh") == sorted(set(ids_of(out)))
    vectors = [open_data(folder).vectors for folder in (out, tmp_path / "fresh")]
    torch.testing.assert_close(*vectors)
    assert again.parts == fresh.parts


def test_unreadable_images_are_listed_with_their_reasons(tmp_path):
    source, out = photos(tmp_path / "photos"), tmp_path / "out"
    write(source, {"kind1/bad.png": b"no image"})
    with pytest.raises(DataError, match=r"1 of 61 items .*kind1/bad.png.* --max-skipped 0.016"):
        embed_data(source, out, MODEL)
    with pytest.raises(DataError, match="not finished"):
        open_data(out)
    done = embed_data(source, out, MODEL, max_skipped=0.02)
    assert (done.images, done.embedded, done.skipped) == (60, 0, 1)
    (line,) = pq.read_table(out / "skipped.parquet").to_pylist()
    assert line["id"] == "kind1/bad.png"
    assert "known format" in line["reason"]
    write(source, {"kind1/bad.png": picture(1)})
    assert embed_data(source, out, MODEL).skipped == 0
    assert not (out / "skipped.parquet").exists()


def test_too_many_unreadable_images_end_a_job_early_whichever_part_is_done_last(tmp_path, monkeypatch):
    monkeypatch.setattr("similis.model.bulk_embedding.ENOUGH", 30)
    source = write(photos(tmp_path / "photos"), {"kind0/0.png": b"no image"})
    with pytest.raises(DataError, match=r"1 of [345]\d items .*kind0/0.png"):
        embed_data(source, tmp_path / "out", MODEL, part_size=8)


def test_tables_of_images_and_of_features_are_chunks(data, tmp_path):
    records = [{"bytes": data.read_bytes(row), "path": None} for row in range(40)]
    for shard in range(2):
        rows = records[20 * shard : 20 * shard + 20]
        (tmp_path / "images").mkdir(exist_ok=True)
        pq.write_table(pa.table({"image": rows, "label": [1] * 20}), tmp_path / "images" / f"{shard}.parquet")
    assert embed_data(tmp_path / "images", tmp_path / "a", MODEL).images == 40
    embed_data(data, tmp_path / "b", MODEL)
    opened = open_data(tmp_path / "a")
    assert opened.values("path")[39] == "1.parquet#19"
    torch.testing.assert_close(opened.vectors, open_data(tmp_path / "b").vectors)
    own = pretrained("identity", weights=None, features=5).save(tmp_path / "model")
    features = torch.randn(6, 5)
    features[2, 1] = torch.nan
    pq.write_table(pa.table({"id": list("abcdef"), "vector": features.tolist()}), tmp_path / "features.parquet")
    done = embed_data(tmp_path / "features.parquet", tmp_path / "c", ModelChoice(str(own)), max_skipped=1)
    assert (done.images, done.skipped, ids_of(tmp_path / "c")) == (5, 1, list("abdef"))


@pytest.fixture(scope="module")
def bucket():
    """A bucket of moto's S3 server, and a function that counts the reads of single objects since the last call."""
    import fsspec
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port()))
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        system = fsspec.filesystem("s3", skip_instance_cache=True)
        system.mkdir("photos")
        yield system
    server.stop()


def test_a_bucket_is_embedded_into_a_bucket(bucket, tmp_path, monkeypatch):
    local = photos(tmp_path / "photos")
    bucket.put(str(local), "photos/all", recursive=True)
    reads = []
    whole = type(bucket)._cat_file

    async def counted(self, path, **options):
        reads.append(path)
        return await whole(self, path, **options)

    monkeypatch.setattr(type(bucket), "_cat_file", counted)
    done = embed_data("s3://photos/all", "s3://photos/out", MODEL, part_size=16)
    assert (done.images, done.embedded) == (60, 60)
    assert sorted(reads) == sorted(set(reads))  # each object once
    assert len(reads) == 60
    bucket.pipe_file("photos/all/kind3/new.png", picture(902))
    bucket.rm_file("photos/all/kind0/1.png")
    again = embed_data("s3://photos/all", "s3://photos/out", MODEL, part_size=16)
    assert (again.images, again.embedded) == (60, 1)
    bucket.get("photos/out", str(tmp_path / "out"), recursive=True)
    assert ids_of(tmp_path / "out") == sorted({*ids_of(tmp_path / "out")} | {"kind3/new.png"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": ModelChoice("small_conv", None, 12, "cpu")}, "another embedding .model "),
        ({"part_size": 0}, "part_size=0"),
        ({"max_skipped": 2.0}, "from 0 to 1"),
        ({"source": "nowhere/at/all"}, "no folder or file"),
    ],
)
def test_two_jobs_are_not_mixed(change, words, data, tmp_path):
    job = {"source": data, "folder": tmp_path, "model": MODEL, "part_size": 16}
    embed_data(**job)
    before = files(tmp_path)
    with pytest.raises((UserError, DataError), match=words):
        embed_data(**job | change)
    assert files(tmp_path) == before


def test_a_folder_called_parquet_without_parts_is_a_data_error(tmp_path):
    (tmp_path / "x.parquet").mkdir()
    with pytest.raises(DataError, match=r"holds no part-\*.parquet; give the path of a Parquet file"):
        open_data(tmp_path / "x.parquet")


WORDS = ("synthetic?classes=40&images=10&size=32", "--model", "small_conv", "--weights", "none", "--size", "48")
WORDS += ("--part-size", "8", "--device", "cpu")


def started(out: Path) -> subprocess.Popen[bytes]:
    source, *options = WORDS
    code = "from similis.cli import main\nif __name__ == '__main__': main()"
    script = out.with_suffix(".py")
    script.write_text(code)
    words = [sys.executable, str(script), "embed", source, str(out), *options, "--workers", "2"]
    return subprocess.Popen(words, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})


def wait_for_parts(driver: subprocess.Popen[bytes], out: Path, more: int) -> set[str]:
    """Wait until there are so many parts more than now; their names."""
    whole = {path.name for path in out.glob("part-*")}
    until = time.monotonic() + 400
    while len(now := {path.name for path in out.glob("part-*")}) < len(whole) + more:
        assert driver.poll() is None, "it ended before it was killed"
        assert time.monotonic() < until, f"no {more} new parts"
        time.sleep(0.005)
    return now


def worker_of(driver: subprocess.Popen[bytes]) -> int:
    """A process that embeds for a driver."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            is_child = f"PPid:\t{driver.pid}\n" in status.read_text()
            if is_child and b"spawn_main" in status.with_name("cmdline").read_bytes():
                return int(status.parent.name)
        except OSError:
            continue
    raise AssertionError("the driver has no workers")


@pytest.mark.timeout(900)  # processes start slowly on a busy machine
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the workers in /proc")
@pytest.mark.slow
def test_a_killed_worker_and_a_killed_driver_leave_no_trace(tmp_path):
    out = tmp_path / "out"
    driver = started(out)
    try:
        wait_for_parts(driver, out, 2)
        os.kill(worker_of(driver), signal.SIGKILL)
        whole = wait_for_parts(driver, out, 1)  # in fresh processes
    finally:
        driver.kill()
        driver.wait()
    kept = {name: (out / name).stat().st_mtime_ns for name in whole}
    given = open_data(WORDS[0])
    choice = ModelChoice("small_conv", weights=None, size=48, device="cpu")
    done = embed_data(given, out, choice, part_size=8)
    assert 0 < done.embedded <= 400 - len(whole)
    assert kept == {name: (out / name).stat().st_mtime_ns for name in whole}  # nothing was computed twice
    assert done.checksum == embed_data(given, tmp_path / "undisturbed", choice, part_size=8).checksum
    assert ids_of(out) == given.values("path")  # every image once
