"""``similis index``: vectors from every kind of file, the table, the folder, the exit code where no target is met."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

import similis
from similis.cli.index import parse_bytes
from similis.model.vector_file import read_vectors
from similis.retrieval.gallery import Entry
from similis.values import DataError, UserError
from tests.cli.test_main import ended

X = np.random.default_rng(0).standard_normal((300, 8), dtype=np.float32)


def write_table(path, rows):
    lists = pa.FixedSizeListArray.from_arrays(X[rows].reshape(-1), 8)
    table = pa.table({"id": [10 * row for row in rows], "label": [row % 3 for row in rows], "vector": lists})
    pq.write_table(table, path)


def test_the_table_and_the_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "v.parquet", range(300))
    assert ended(["index", "v.parquet", "--recall", "0.9", "--out", "kept"]) == 0
    out = capsys.readouterr().out
    assert all(kind in out for kind in ("flat", "int8", "binary", "hnsw"))
    assert "written to kept" in out
    index = similis.load_index("kept")
    row = index.search(torch.from_numpy(X[7:8]), 1, labels=["1"]).index[0, 0]
    assert (*index.entry(row), len(index)) == ("70", "1", 300)


def test_a_target_that_no_kind_meets_names_the_nearest_and_writes_nothing(tmp_path, capsys):
    np.save(tmp_path / "v.npy", X)
    assert ended(["index", str(tmp_path / "v.npy"), "--memory", "10B", "--out", str(tmp_path / "kept")]) == 1
    assert "The nearest is" in capsys.readouterr().out
    assert not (tmp_path / "kept").exists()


def test_files_of_vectors(tmp_path):
    np.save(tmp_path / "v.npy", X)
    save_file({"vectors": torch.from_numpy(X), "labels": torch.arange(300)}, tmp_path / "v.safetensors")
    for name in ("v.npy", "v.safetensors"):
        assert torch.equal(torch.cat([each.vectors for each in read_vectors(tmp_path / name)]), torch.from_numpy(X))
    model = similis.pretrained("small_conv", weights=None, size=16, device="cpu")
    model.gallery.add(torch.eye(256)[:2], [Entry("a", "cat", ""), Entry("b", None, "")])
    (found,) = read_vectors(model.save(tmp_path / "model"))
    assert (found.ids, found.labels, found.model_hash) == (["a", "b"], ["cat", None], model.model_hash)


def test_the_part_files_of_embed_are_indexed_under_their_model(tmp_path, capsys):
    source, out = "synthetic?classes=30&images=10&size=16", tmp_path / "parts"
    model = ["--model", "small_conv", "--weights", "none", "--size", "16"]
    assert ended(["embed", source, str(out), *model, "--part-size", "200"]) == 0
    words = ["index", str(out), "--recall", "0.9", "--kind", "int8", "--workers", "2", "--out", str(tmp_path / "kept")]
    assert ended(words) == 0
    index = similis.load_index(tmp_path / "kept")
    expected = similis.pretrained("small_conv", weights=None, size=16, device="cpu")
    assert (len(index), index.model_hash) == (300, expected.model_hash)
    assert index.kind == "int8"
    (out / "_embedding.json").unlink()
    assert ended(["index", str(out)]) == 1
    assert "is not finished" in capsys.readouterr().err


def test_files_that_hold_no_vectors(tmp_path):
    np.save(tmp_path / "flat.npy", X[0])
    (tmp_path / "bad.npy").write_bytes(b"no array")
    (tmp_path / "bad.safetensors").write_bytes(b"no tensors")
    (tmp_path / "bad.parquet").write_bytes(b"no table")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    pq.write_table(pa.table({"vector": [[1.0], [1.0, 2.0, 3.0]]}), tmp_path / "ragged.parquet")
    pq.write_table(pa.table({"vector": [[1.0, 2.0, 3.0, 4.0], None]}), tmp_path / "missing.parquet")
    np.save(tmp_path / "words.npy", np.array(["a"]))
    save_file({}, tmp_path / "empty.safetensors")
    save_file({"a": torch.ones(1), "b": torch.ones(1)}, tmp_path / "two.safetensors")
    for file in (*tmp_path.iterdir(), tmp_path / "none.npy", tmp_path / "none.txt"):
        with pytest.raises(DataError, match=file.name):
            list(read_vectors(file))


def test_sizes_in_words():
    assert [parse_bytes(words) for words in ("2GB", "1.5 kb", "1MiB", "7")] == [2 * 10**9, 1500, 2**20, 7]
    for words in ("much", "0GB", "-1"):
        with pytest.raises(UserError, match="for example 2GB"):
            parse_bytes(words)
