"""Two views of each image, with and without labels."""

import pytest
import torch

from similis.data.examples import image_data
from similis.data.loader import Loader
from similis.data.open_data import open_data
from similis.model.finished import trained_model
from similis.objective.losses.nt_xent import nt_xent
from similis.run.stage import batches_of, build_task
from similis.training.loop import train_step
from similis.values import Preprocessing
from tests.data.pictures import picture, write
from tests.run.small import ran, stage_of

VIEWS = {"objective__loss": "nt_xent", "training__views": 2, "training__sampler": "random"}
BARE = {**VIEWS, "training__labelled": False, "training__sampler": None}


def test_a_batch_has_every_image_once_and_then_again_in_another_augmentation():
    data = image_data(open_data("synthetic?classes=4&images=4&size=24"), Preprocessing(size=16, resize=20))
    rows = torch.tensor([[3, 0, 7], [9, 12, 5]])
    one = list(Loader(data).train(rows, policy="random-resized", seed=1, epoch=2))
    two = list(Loader(data).train(rows, policy="random-resized", seed=1, epoch=2, views=2, labelled=False))
    for single, double in zip(one, two, strict=True):
        assert torch.equal(double.images[:3], single.images)
        assert all(not torch.equal(double.images[n], double.images[n + 3]) for n in range(3))
        assert double.ids.tolist() == single.ids.tolist() * 2
        assert torch.equal(double.labels, double.ids)
    again = list(Loader(data, workers=1).train(rows, policy="random-resized", seed=1, epoch=2, views=2))
    assert all(torch.equal(a.images, b.images) for a, b in zip(two, again, strict=True))
    assert again[0].labels.tolist() == data.labels[rows[0]].tolist() * 2


def test_the_loss_without_labels_is_that_of_the_paper(tmp_path):
    stage = stage_of(tmp_path, **BARE)
    task = build_task(stage)
    batch = next(iter(batches_of(stage, task)(0, 0)))
    assert len(batch.labels) == 12
    with torch.no_grad():
        x = torch.nn.functional.normalize(task.model.train()(batch.images).double(), dim=1)
    temperature, expected = 0.1, 0.0
    for i in range(12):
        j = (i + 6) % 12  # the other view of the same image; all others are negatives
        among = [float(torch.exp(x[i] @ x[k] / temperature)) for k in range(12) if k != i]
        expected -= float(torch.log(torch.exp(x[i] @ x[j] / temperature) / sum(among))) / 12
    assert float(nt_xent(x, batch.labels, temperature=temperature)) == pytest.approx(expected, rel=1e-9)
    assert float(train_step(task, batch, 0)) == pytest.approx(expected, rel=1e-4)


def test_labels_of_the_training_images_decide_nothing(tmp_path):
    files = {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(8) for n in range(4)}
    source = str(write(tmp_path / "photos", files))
    changes = {"data__source": source, "training__batch_size": 8, "training__select": "last", "training__epochs": 1}
    plain = ran(tmp_path / "a", **BARE, **changes)
    wrong = ran(tmp_path / "b", **BARE, **changes, data__wrong_labels=0.9)
    first, second = (trained_model(result).state_dict() for result in (plain, wrong))
    assert all(torch.equal(first[name], second[name]) for name in first)
    told = ran(tmp_path / "c", **VIEWS, **changes)
    third = trained_model(told).state_dict()
    assert any(not torch.equal(first[name], third[name]) for name in first)
    assert plain.test["recall@1"] >= 0
