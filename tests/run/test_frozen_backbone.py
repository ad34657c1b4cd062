"""A head in closed form: fitted on training classes only, chosen on validation classes, the same run twice."""

import pytest
import torch
from safetensors.torch import load_file

from similis.run.frozen_backbone import fit_split, judge_recall
from similis.run.machine import Machine
from similis.run.network import build_model
from similis.run.parts import open_source
from similis.run.run import run
from similis.training.closed_form import SHRINKAGES, fit_whitening
from similis.training.tensors import load_model
from tests.run.small import ran, small

CLOSED = {"model__head": "whitening"}


def test_a_run_fits_its_head_and_measures_it(tmp_path):
    result = ran(tmp_path, **CLOSED)
    assert (result.epochs, result.trained_on, result.selected_on) == (0, "training classes", "validation")
    assert result.facts["shrinkage"] in SHRINKAGES
    assert 0 < result.test["recall@1"] <= 1
    assert result.spec.model.pooled_by == "own"
    again = run(small(**CLOSED), Machine(root=tmp_path))
    assert again.address == result.address
    assert len([*tmp_path.glob("synthetic-*")]) == 1
    assert ran(tmp_path).address != result.address


def test_the_saved_head_is_the_map_of_the_training_classes(tmp_path):
    result = ran(tmp_path, **CLOSED)
    spec, machine = result.spec, Machine()
    source, fresh, kept = open_source(spec, machine), build_model(spec, machine).eval(), build_model(spec, machine)
    load_model(kept, result.folder / "model.safetensors", f"{result.address}/model")
    (file,) = (tmp_path / "features").glob("*.safetensors")
    features = load_file(file)["features"]
    seen = torch.cat([source.split.train, source.split.validation]).sort().values
    wanted = fit_whitening(features[seen], source.manifest.labels[seen]).map(8, result.facts["shrinkage"])
    torch.testing.assert_close(kept.head.weight, wanted.weight)
    torch.testing.assert_close(kept.head.bias, wanted.bias)
    assert all(torch.equal(a, b) for a, b in zip(fresh.backbone.parameters(), kept.backbone.parameters(), strict=True))


def test_test_classes_change_nothing():
    spec, chance = small(**CLOSED), torch.Generator().manual_seed(0)
    source = open_source(spec, Machine())
    split, labels = source.split, source.manifest.labels
    features = torch.randn(len(labels), 20, generator=chance)
    other = features.clone()
    other[split.test] = 1e6 * torch.randn(len(split.test), 20, generator=chance)
    one, two = (fit_split("whitening", each, labels, split, 8) for each in (features, other))
    assert torch.equal(one.map.weight, two.map.weight)
    assert (one.shrinkage, one.value) == (two.shrinkage, two.value)


def test_without_validation_classes_the_shrinkage_is_that_of_ledoit_and_wolf(tmp_path):
    result = ran(tmp_path, **CLOSED, training__select="last", data__validation_share=0.34, data__protocol="default")
    assert result.selected_on == "nothing"
    assert result.facts["shrinkage"] not in SHRINKAGES


def test_directions_that_lda_does_not_have_are_zero(tmp_path):
    found = ran(tmp_path, model__head="lda").embeddings()["vectors"]
    assert (found[:, 5:] == 0).all()  # six training classes
    assert (found[:, :5].abs().amax(dim=0) > 0).all()


def test_a_head_that_is_trained_can_start_at_whitening(tmp_path):
    frozen = {"model__trains": "head", "model__pooling": "own", "training__lr": 1e-12}
    begun = ran(tmp_path, model__head="whitening+trained", **frozen)
    assert begun.epochs
    assert begun.address != ran(tmp_path, **frozen).address
    closed = ran(tmp_path, model__head="whitening", data__protocol="default", training__select="last")
    assert begun.test["recall@1"] == pytest.approx(closed.test["recall@1"], abs=0.1)  # it barely moved


def test_recall_of_vectors():
    vectors = torch.tensor([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [0.1, 3.0]])
    assert judge_recall(vectors, torch.tensor([0, 0, 1, 1])) == 1.0
    assert judge_recall(vectors, torch.tensor([0, 1, 0, 1])) == 0.0
