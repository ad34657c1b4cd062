"""A metric in closed form behind a model: fitted, composed with a head, saved, exported."""

import pytest
import torch

import similis
from similis.data.open_data import open_data
from similis.model.onnx_export import export_onnx
from similis.run.machine import Machine
from similis.run.parts import images_for
from similis.sphere import unit
from similis.training.closed_form import SHRINKAGES, fit_whitening
from similis.values import UserError
from tests.run.small import ran

DATA = "synthetic?classes=12&images=6&size=16"


@pytest.fixture(scope="module")
def data():
    return open_data(DATA)


def network(**options):
    return similis.pretrained("small_conv", weights=None, size=16, **options)


def test_the_new_head_is_the_map_of_the_features(data):
    model = network()
    made = model.fit_metric(data, dim=8)
    assert (made.dim, made.spec.head, made.spec.dim) == (8, "whitening", 8)
    assert made.model_hash != model.model_hash
    found = made.encode(data)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(len(data)))
    model.embedder.normalise = False
    features = model.encode(data)
    wanted = [unit(fit_whitening(features, data.labels).map(8, each)(features)) for each in SHRINKAGES]
    assert any(torch.allclose(each, found, atol=1e-4) for each in wanted)
    assert made.trained_on.classes == frozenset(data.values("class_name"))


def test_a_head_that_was_trained_is_composed(data, tmp_path):
    model = similis.load(ran(tmp_path).folder)
    made = model.fit_metric(data, kind="pca", dim=4)
    assert made.embedder.head.weight.shape == (4, model.embedder.backbone.features)
    plain = model.embedder
    plain.normalise = False
    vectors = model.encode(data)
    centred = vectors - vectors.mean(dim=0)
    directions = torch.linalg.svd(centred, full_matrices=False)[2][:4]
    wanted = unit(centred @ directions.T)
    torch.testing.assert_close(made.encode(data).abs(), wanted.abs(), atol=1e-4, rtol=1e-3)


def test_it_is_saved_and_loaded_with_its_gallery(data, tmp_path):
    made = network().fit_metric(data, kind="lda", dim=6)
    made.add(data)
    made.save(tmp_path / "saved")
    again = similis.load(tmp_path / "saved")
    assert again.model_hash == made.model_hash
    torch.testing.assert_close(again.encode(data), made.encode(data))
    assert [hit.id for hit in again.search(made.encode(data)[0], k=3)] == [
        hit.id for hit in made.search(made.encode(data)[0], k=3)
    ]


def test_what_has_no_labels_or_no_such_form_is_refused(data):
    with pytest.raises(UserError, match="unknown closed form 'white'"):
        network().fit_metric(data, kind="white")
    with pytest.raises(UserError, match="dim is 9999"):
        network().fit_metric(data, dim=9999)


def test_the_head_is_a_linear_layer_of_the_onnx_file(data):
    pytest.importorskip("onnxruntime")
    made = network().fit_metric(data, dim=8)
    loader = images_for(made.embedder, data, Machine(device="cpu"), policies=("eval",))
    images = next(loader.ordered(torch.arange(0, len(data), 6), batch_size=12)).images
    assert export_onnx(made.embedder, images)[1] <= 5e-6  # whitening magnifies rounding
