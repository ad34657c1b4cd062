"""Vectors of another model, and keys that must stay when the collection grows."""

import pyarrow.parquet as pq
import pytest
import torch

import similis
from similis.cli import main
from similis.model.bulk_embedding import embed_data
from similis.model.load import ModelChoice
from similis.values import UserError
from tests.data.pictures import picture, write

MODEL = ModelChoice("small_conv", weights=None, size=16, device="cpu")


def photos(root, names):
    return write(root, {f"{name[0]}/{name}.png": picture(seed) for seed, name in enumerate(names)})


def test_vectors_of_another_model_are_refused_and_those_of_this_one_taken(tmp_path):
    data = similis.open_data(str(photos(tmp_path / "photos", ["a1", "a2", "b1"])))
    embed_data(data, tmp_path / "old", MODEL)
    old = MODEL.open()
    new = similis.pretrained("small_conv", weights=None, size=24, device="cpu")
    vectors = similis.open_data(str(tmp_path / "old"))
    for call in (new.add, new.encode):
        with pytest.raises(UserError, match=f"of the model {old.model_hash[:12]}, and this is {new.model_hash[:12]}"):
            call(vectors)
    assert len(new.gallery) == 0
    old.add(vectors)
    assert [(hit.id, hit.label) for hit in old.search(picture(2), 1)] == [("b/b1.png", "b")]
    assert torch.equal(old.encode(vectors), old.encode(data))


def test_vectors_that_name_no_model_are_refused_as_a_file(tmp_path):
    data = similis.open_data(str(photos(tmp_path / "photos", ["a1", "a2", "b1"])))
    embed_data(data, tmp_path / "old", MODEL)
    table = pq.read_table(tmp_path / "old").replace_schema_metadata(None)
    pq.write_table(table, tmp_path / "bare.parquet")
    with pytest.raises(UserError, match="of a model that they do not name"):
        MODEL.open().add(similis.open_data(str(tmp_path / "bare.parquet")))


@pytest.mark.parametrize("key", ["path", "content"])
def test_a_vector_keeps_its_id_when_photos_are_added(tmp_path, key):
    some, more = ["a3", "a5", "b4"], ["a1", "a3", "a4", "a5", "b0", "b4", "c9"]
    seeds = {name: seed for seed, name in enumerate(more)}
    tables = []
    for names in (some, more):
        root = write(tmp_path / str(len(names)), {f"{name[0]}/{name}.png": picture(seeds[name]) for name in names})
        words = f"embed {root} {root}-out --model small_conv --weights none --size 16 --key {key} --device cpu"
        with pytest.raises(SystemExit) as ended:
            main(words.split())
        assert not ended.value.code
        tables.append(pq.read_table(str(root) + "-out").to_pylist())
    before, after = ({row["id"]: row["path"] for row in table} for table in tables)
    assert len(before) == 3
    assert before.items() <= after.items()


def test_images_that_share_an_id_are_refused_before_anything_is_embedded(tmp_path):
    root = write(tmp_path / "photos", {"a/1.png": picture(1), "b/2.png": picture(1)})
    with pytest.raises(UserError, match="--key path"):
        embed_data(similis.open_data(str(root)), tmp_path / "out", MODEL, key="content")
    assert not (tmp_path / "out").exists()
