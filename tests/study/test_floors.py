"""Floors: what needs no training, measured on the test images of the table."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from similis.run.network import build_model
from similis.run.parts import images_for, open_source
from similis.run.spec import parse_spec
from similis.study.floors import floor_jobs, measure_floor
from similis.study.plan.jobs import draw_seed, final_jobs, final_spec
from similis.study.tournament import run_tournament
from tests.study.small import plan


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    made = plan(floors=True, search={"trials": 0}, contestants=["pca", "contrastive"])
    return made, run_tournament(made, tmp_path_factory.mktemp("floors"))


def nearest_is_right(vectors: torch.Tensor, labels: torch.Tensor) -> float:
    similarity = normalize(vectors) @ normalize(vectors).T
    similarity.fill_diagonal_(-2)
    return float((labels[similarity.argmax(dim=1)] == labels).double().mean())


def test_a_network_from_scratch_has_pixels_and_itself_untrained(done):
    made, folder = done
    names = [job.name for job in floor_jobs(made)]
    assert names == ["floor-main-raw_pixels-r0", "floor-main-untrained_network-r0", "floor-main-untrained_network-r1"]
    assert sorted(record["name"] for record in folder.records.all("floor")) == names
    assert {entry["model"] for entry in folder.ledger.entries()} >= set(names)


def test_floors_are_what_plain_code_finds(done):
    made, folder = done
    spec = final_spec(made, list(final_jobs(made))[1], {})  # of the loss: the first has a head in closed form
    spec = parse_spec(spec.model_dump(mode="json") | {"seed": draw_seed(made, 1)})
    source, model = open_source(spec, folder.machine), build_model(spec, folder.machine).eval()
    loader = images_for(model, source.manifest, folder.machine, policies=("eval",))
    batch = next(iter(loader.ordered(source.split.test, batch_size=1000)))
    images, labels = batch.images, batch.labels
    flat = images.flatten(1)
    wanted = {
        "floor-main-raw_pixels-r0": nearest_is_right(flat - flat.mean(dim=1, keepdim=True), labels),
        "floor-main-untrained_network-r1": nearest_is_right(model(images).detach(), labels),
    }
    for name, value in wanted.items():
        record = folder.records.read(name)
        assert record["test"]["recall@1"] == pytest.approx(value)
        assert sum(record["per_class"]["hits"]) / sum(record["per_class"]["queries"]) == pytest.approx(value)
        assert record["dim"] == (flat.shape[1] if "pixels" in name else 8)
    final = folder.records.all("final")[0]
    assert np.array_equal(final["per_class"]["labels"], record["per_class"]["labels"])


def test_a_second_call_measures_nothing(done, monkeypatch):
    made, folder = done
    monkeypatch.setattr("similis.study.floors.open_source", lambda *_: pytest.fail("measured again"))
    for job in floor_jobs(made):
        measure_floor(folder, job)


def test_a_pretrained_network_is_a_floor_at_both_resolutions():
    network = {"backbone": "tf_efficientnet_lite0", "weights": "pretrained", "image_size": 128}
    made = plan(floors=True, terms__model=network)
    assert [job.floor for job in floor_jobs(made)] == ["untouched network", "untouched network, own resolution"]
