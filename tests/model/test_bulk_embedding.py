"""Bulk embedding: every image once in part files, whatever is killed, and refused where it would mix two jobs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from similis.cli import main
from similis.data.open_data import open_data
from similis.model.bulk_embedding import embed_data
from similis.model.load import ModelChoice, pretrained
from similis.retrieval.evaluate import evaluate
from similis.values import DataError, UserError

SOURCE = "synthetic?classes=8&images=5&size=16"
MODEL = ModelChoice("small_conv", weights=None, size=16, device="cpu")


@pytest.fixture(scope="module")
def data():
    return open_data(SOURCE)


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_parts_hold_every_vector_with_its_attributes_and_open_as_a_source(data, tmp_path):
    seen = []
    done = embed_data(data, tmp_path / "out", MODEL, part_size=16, batch_size=4, on_part=lambda *now: seen.append(now))
    assert (done.images, done.dim, done.parts, done.embedded) == (40, 256, 3, 40)
    assert seen == [(40, 16), (40, 16), (40, 8)]
    first = pq.read_table(tmp_path / "out" / "part-000000.parquet")
    assert first.column_names[:3] == ["id", "vector", "label"]
    assert {"path", "class_name", "split", "content"} <= set(first.column_names)
    assert str(first.schema.field("vector").type).startswith("fixed_size_list<")
    opened = open_data(tmp_path / "out")
    assert torch.equal(opened.vectors, pretrained("small_conv", weights=None, size=16, device="cpu").encode(data))
    assert first.column("id").to_pylist() == data.values("path")[:16]
    for column in ("path", "label", "class_name", "split"):
        assert opened.values(column) == data.values(column)


def test_the_command_evaluates_ready_vectors(data, tmp_path, capsys):
    embed_data(data, tmp_path, MODEL, part_size=16)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["evaluate", str(tmp_path), "--model", "identity", "--weights", "none", "--part", "all", "--json"])
    (found,) = json.loads(capsys.readouterr().out)["models"]
    opened = open_data(tmp_path)
    assert found["recall@1"] == pytest.approx(evaluate(opened.vectors, opened.labels, ks=(1,)).means["recall@1"])
    assert found["dim"] == 256


def test_a_second_call_keeps_whole_parts_and_embeds_missing_and_damaged_ones(data, tmp_path):
    done = embed_data(data, tmp_path, MODEL, part_size=8)
    before = files(tmp_path)
    (tmp_path / "part-000001.parquet").unlink()
    damaged = tmp_path / "part-000003.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    (tmp_path / ".part-000001.parquet.node.7").write_bytes(b"half")
    again = embed_data(data, tmp_path, MODEL, part_size=8)
    assert (again.embedded, again.checksum) == (16, done.checksum)
    after = files(tmp_path)
    assert set(after) == set(before)
    assert {name for name in after if after[name] != before[name]} == {"part-000001.parquet", "part-000003.parquet"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": ModelChoice("small_conv", None, 12, "cpu")}, "another embedding .model "),
        ({"data": open_data("synthetic?classes=8&images=5&size=12")}, "another embedding .source "),
        ({"part_size": 9}, "part_size 16 instead of 9"),
        ({"folder": "s3://bucket/out"}, "is a URL"),
        ({"part_size": 0}, "part_size=0"),
    ],
)
def test_two_jobs_are_not_mixed(change, words, data, tmp_path):
    job = {"data": data, "folder": tmp_path, "model": MODEL, "part_size": 16}
    embed_data(**job)
    before = files(tmp_path)
    with pytest.raises(UserError, match=words):
        embed_data(**job | change)
    assert files(tmp_path) == before


def test_an_unfinished_folder_is_no_source(data, tmp_path):
    embed_data(data, tmp_path, MODEL, part_size=16)
    (tmp_path / "part-000001.parquet").unlink()
    with pytest.raises(DataError, match=r"lacks 1 of 3 parts, the first is part 1; restart `similis embed`"):
        open_data(tmp_path)


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
    assert 0 < done.embedded <= 400 - 8 * len(whole)
    assert kept == {name: (out / name).stat().st_mtime_ns for name in whole}  # nothing was computed twice
    assert done.checksum == embed_data(given, tmp_path / "undisturbed", choice, part_size=8).checksum
    ids = [number for path in sorted(out.iterdir()) for number in pq.read_table(path).column("id").to_pylist()]
    assert ids == given.values("path")  # every image once
