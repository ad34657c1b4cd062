"""Ready feature vectors: linear metric learning is one more run."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from similis.data.open_data import open_data
from similis.run.machine import Machine
from similis.run.run import run
from similis.run.spec import RunSpec, parse_spec
from similis.values import UserError


def written(folder: Path, noise: float = 1.0, seed: int = 0) -> Path:
    """Forty classes of ten vectors: three dimensions tell them apart, thirteen are noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(40).repeat_interleave(10)
    centres = torch.randn(40, 3, generator=generator)
    known = centres[labels] + 0.1 * torch.randn(400, 3, generator=generator)
    vectors = torch.cat([known, noise * torch.randn(400, 13, generator=generator)], 1)
    table = pa.table({"vector": vectors.tolist(), "label": labels.tolist()})
    pq.write_table(table, folder / "vectors.parquet")
    return folder / "vectors.parquet"


def spec_for(place: Path, epochs: int, **model: object) -> RunSpec:
    return parse_spec({
        "data": {"source": str(place), "validation_share": 0.34},
        "model": {"backbone": "identity", "weights": None, "dim": 3, "options": {"features": 16}, **model},
        "objective": {"loss": "multi_similarity"},
        "training": {"epochs": epochs, "batch_size": 20, "lr": 0.02, "select": "last"},
    })  # fmt: skip


def test_a_linear_map_finds_what_tells_classes_apart(tmp_path):
    place = written(tmp_path)
    recall = [run(spec_for(place, n), Machine(root=tmp_path / "runs")).test["recall@1"] for n in (0, 20)]
    assert recall[1] > recall[0] + 0.3


def test_the_fingerprint_covers_the_vectors(tmp_path):
    first = open_data(str(written(tmp_path))).fingerprint()
    assert open_data(str(written(tmp_path))).fingerprint() == first
    assert open_data(str(written(tmp_path, seed=1))).fingerprint() != first


def test_vectors_and_images_are_not_mixed_up(tmp_path):
    place = written(tmp_path)
    with pytest.raises(UserError, match="choose the backbone that fits"):
        run(spec_for(place, 1, backbone="small_conv", options={}), Machine(root=tmp_path / "runs"))
    with pytest.raises(UserError, match="choose the backbone that fits"):
        run(spec_for(Path("synthetic"), 1), Machine(root=tmp_path / "runs"))
    with pytest.raises(UserError, match=r"built for vectors \(B, 7\)"):
        run(spec_for(place, 1, options={"features": 7}), Machine(root=tmp_path / "runs"))
