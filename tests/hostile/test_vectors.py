"""Vectors of another model, and keys that must stay when the collection grows."""

import pyarrow.parquet as pq
import pytest
import torch

import similis
from similis.model.bulk_embedding import embed_data
from similis.model.load import ModelChoice
from similis.values import DataError, UserError
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
    table = pq.read_table(tmp_path / "old").replace_schema_metadata(None)
    pq.write_table(table, tmp_path / "bare.parquet")
    with pytest.raises(UserError, match="of a model that they do not name"):
        MODEL.open().add(similis.open_data(str(tmp_path / "bare.parquet")))


def test_a_path_that_is_listed_twice_is_refused_before_anything_is_embedded(tmp_path):
    root = photos(tmp_path / "photos", ["a1", "b1"])
    (root / "twice.csv").write_text("path,label\na/a1.png,1\nb/b1.png,2\na/a1.png,1\n")
    with pytest.raises(DataError, match="more than once"):
        embed_data(root / "twice.csv", tmp_path / "out", MODEL)
    assert not (tmp_path / "out").exists()
