"""Defaults that fit the machine and the data: chosen by rules that do not depend on the moment."""

import pytest
import yaml

from similis.cli.asked_spec import open_asked
from similis.data.splits import split_data
from similis.engine.device import GIB
from similis.run import fitted_settings as train_defaults
from similis.run.cost import Measured, estimate_seconds
from similis.run.fitted_settings import fit_defaults, fit_machine, fit_share, fit_size, fit_size_of_batch
from similis.run.machine import Machine
from similis.run.prepared import prepare
from similis.run.spec import parse_spec, read_spec
from tests.data.test_splits import manifest_of
from tests.run.small import VALUES

HERE = Machine(device="cpu")


def spec_of(**training):
    return parse_spec({"data": {"source": "photos"}, "model": {"weights": None}, "training": training})


def run_of(spec, classes=8, images=4):
    return prepare(spec, HERE, manifest_of([images] * classes))


@pytest.fixture
def machine_of(monkeypatch):
    """Another machine: cores and GiB."""

    def put(cores, memory):
        monkeypatch.setattr(train_defaults, "count_cores", lambda: cores)
        monkeypatch.setattr(train_defaults, "total_memory", lambda device: memory)
        return HERE

    return put


@pytest.mark.parametrize(
    ("classes", "images", "share"),
    [
        (200, 30, 0.1),  # 10 classes with 300 images are a tenth
        (100, 20, 0.2),  # a tenth would be 5 classes
        (60, 20, 0.3),
        (40, 100, 0.3),  # 200 images of 2 classes would be a tenth
        (400, 4, 0.3),  # a tenth would be 20 classes with 80 images
        (8, 4, 0.3),  # never enough: the largest share, and the plan says so
    ],
)
def test_validation_has_enough_classes_and_images_where_the_data_allow(classes, images, share):
    assert fit_share(run_of(spec_of(), classes, images)) == share


def test_the_official_splits_keep_their_tenth():
    """CUB: 100 training classes of 59 images."""
    assert fit_share(run_of(spec_of(), 200, 59)) == 0.1
    assert fit_share(run_of(spec_of(select="last"))) == 0.1  # nothing validates


def size_of(spec, classes):
    return fit_size(run_of(spec, classes, 20)).spec.model.image_size


def test_resolution_follows_cores_and_images(machine_of):
    machine_of(2, 16)
    assert [size_of(spec_of(), c) for c in (10, 50, 100, 1000)] == [None, 160, 128, 128]
    machine_of(64, 256)
    assert size_of(spec_of(), 100) is None
    machine_of(2, 16)
    small = spec_of().model_copy(update={"model": parse_spec(VALUES).model})
    assert size_of(small, 1000) == 16  # 16 pixels already


def test_batch_follows_memory(machine_of):
    own = run_of(spec_of(), 100, 20)
    at_128 = own.change({"model.image_size": 128})
    for cores, memory, run, batch in ((2, 23, at_128, 50), (16, 64, at_128, 100), (2, 4, own, 20)):
        machine_of(cores, memory)
        assert fit_size_of_batch(run) == batch
    kept = at_128.network.cost()[1]
    machine_of(2, 23)
    machine = fit_machine(at_128, loaders=None, cache_gb=None).machine
    assert 50 * kept + machine.cache_bytes < 2.5 * GIB
    assert machine.workers == 0


def test_loader_processes_follow_cores_and_images(machine_of):
    for cores, images, loaders in ((2, 5000, 0), (16, 5000, 4), (64, 5000, 8), (16, 500, 0)):
        machine_of(cores, 64)
        run = run_of(spec_of(), images // 10, 10)
        assert fit_machine(run, loaders=None, cache_gb=1.0).machine.workers == loaders
    asked = fit_machine(run, loaders=3, cache_gb=0.5).machine
    assert (asked.workers, asked.cache_bytes) == (3, GIB // 2)


def test_what_was_asked_for_stays_and_a_file_is_never_changed(machine_of, tmp_path):
    machine = machine_of(1, 2)
    source = "synthetic?classes=40&images=30&size=8"
    chosen = open_asked(source, {"model.weights": None}, machine, fit_defaults).spec
    assert (chosen.model.image_size, chosen.training.batch_size, chosen.data.validation_share) == (128, 20, 0.3)
    keys = {"model.weights": None, "model.image_size": 224, "training.batch_size": 90, "data.validation_share": 0.1}
    asked = open_asked(source, keys, machine, fit_defaults).spec
    assert (asked.model.image_size, asked.training.batch_size, asked.data.validation_share) == (224, 90, 0.1)
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump({"data": {"source": source}}))
    assert open_asked(str(file), {}, machine, fit_defaults).spec == read_spec(file)


def test_the_time_counts_refit_evaluation_and_untouched_networks():
    split = split_data(manifest_of([10] * 20), validation_share=0.2)  # 80 train, 20 validate, 100 test
    each = Measured(trained=1.0, embedded=0.1)
    assert estimate_seconds(spec_of(epochs=3), split, each) == pytest.approx(3 * (80 + 2) + 300 + 2 * 10)
    assert estimate_seconds(spec_of(epochs=3, select="last"), split, each) == pytest.approx(300 + 2 * 10)
