"""What a run refuses before it trains: recall of nothing, batches that cannot be made."""

import sys

import pytest
import torch

from similis.data.manifest import from_columns
from similis.data.sampling import samplers
from similis.data.splits import split_data
from similis.run.checks import Layout, check_layout, check_matches, check_run, fitting_layout, is_possible
from similis.run.parts import Source
from similis.values import DataError, MissingExtraError, UserError
from tests.data.pictures import picture, write
from tests.run.small import ran, small


def source_of(sizes: list[int], protocol: str = "default", **columns) -> Source:
    """Classes of these sizes, half of them for the test."""
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    names = [f"class {label}" for label in labels]
    manifest = from_columns("made", {"label": labels, "class_name": names, "bytes": [b"x"] * len(labels), **columns})
    return Source(manifest, split_data(manifest, protocol=protocol))


def test_one_image_of_each_class_is_refused_before_anything_is_trained(tmp_path):
    photos = write(tmp_path / "photos", {f"kind{n}/only.png": picture(n) for n in range(12)})
    with pytest.raises(DataError, match=r"found 2 validation images of 2 classes, none with another .*: add some, or"):
        ran(tmp_path / "runs", data__source=str(photos), training__batch_size=4)
    assert not (tmp_path / "runs").exists()
    with pytest.raises(DataError, match=r"found 6 test images of 6 classes.* or leave the test out with"):
        ran(tmp_path / "runs", data__source=str(photos), training__epochs=0)


def test_what_an_evaluation_needs_is_asked_for_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(MissingExtraError, match="sklearn"):
        ran(tmp_path / "runs", evaluation__clustering=True)
    assert not list(tmp_path.glob("runs/*/*"))


def test_what_the_sentences_offer_instead_works(tmp_path):
    photos = write(tmp_path / "photos", {f"kind{n}/only.png": picture(n) for n in range(12)})
    instead = {"data__source": str(photos), "training__batch_size": 4, "training__select": "last"}
    result = ran(tmp_path / "runs", **instead, evaluation__test=False)
    assert (result.epochs, dict(result.test)) == (2, {})


@pytest.mark.parametrize("changes", [{}, {"data__protocol": "default"}, {"training__epochs": 0}])
def test_a_class_with_two_images_in_each_part_is_enough(changes):
    source = source_of([2] * 12, changes.get("data__protocol", "fixed-validation"))
    check_run(small(training__batch_size=4, training__per_class=2, **changes), source)


@pytest.mark.parametrize("test", [True, False])
def test_a_protocol_that_selects_on_test_needs_matches_there_in_any_case(test):
    source = source_of([1] * 12)
    with pytest.raises(DataError, match="6 test images"):
        check_run(small(data__protocol="default", training__batch_size=4, evaluation__test=test), source)


def test_matches_are_those_of_the_evaluation():
    """Roles and groups decide who may answer whom among test images."""
    rows = torch.arange(4)
    twice = [2, 2]
    check_matches(source_of(twice), rows, "test", "")
    for columns in (
        {"group": ["a", "a", "b", "b"]},
        {"role": ["query", "query", "gallery", "gallery"]},
        {"role": ["gallery"] * 4},
    ):
        with pytest.raises(DataError, match="none with another"):
            check_matches(source_of(twice, **columns), rows, "test", "")
        check_matches(source_of(twice, **columns), rows, "validation", "")
    check_matches(source_of(twice, group=["a", "b", "b", "b"]), rows, "test", "")
    check_matches(source_of(twice, role=["query", "gallery", "query", "query"]), rows, "test", "")


def test_a_batch_that_cannot_be_made_is_answered_with_one_that_can():
    labels = torch.arange(8).repeat_interleave(6)
    spec = small(objective__loss="triplet", training__batch_size=48, training__per_class=5)
    with pytest.raises(UserError) as refused:
        check_layout(spec, labels)
    assert str(refused.value) == (
        "48 training images of 8 classes do not make balanced batches of 48 images, 5 of each class in a batch; "
        "set training.batch_size=40 and training.per_class=5"
    )
    check_layout(small(objective__loss="triplet", training__batch_size=40, training__per_class=5), labels)
    check_layout(small(training__batch_size=48, training__sampler="random"), labels)
    with pytest.raises(DataError, match="two images of each of two classes"):
        check_layout(spec, torch.zeros(48))


@pytest.mark.parametrize("seed", range(40))
def test_the_sampler_makes_every_layout_that_is_called_possible_and_no_other(seed):
    generator = torch.Generator().manual_seed(seed)
    classes, largest, batch, each = (int(torch.randint(1, most, (), generator=generator)) for most in (9, 7, 40, 8))
    sizes = torch.randint(1, largest + 1, (classes,), generator=generator)
    labels = torch.arange(classes).repeat_interleave(sizes)
    asked = Layout(batch, each)

    def made(layout: Layout) -> bool:
        try:
            samplers.get("balanced").function(labels, seed=0, epoch=0, **layout._asdict())
        except UserError:
            return False
        return True

    assert is_possible(asked, labels) == made(asked)
    near = fitting_layout(asked, labels)
    assert near is None or (made(near) and near.batch_size <= batch and near.per_class <= each)
    for keep in ("batch", "class"):
        kept = fitting_layout(asked, labels, keep_batch=keep == "batch", keep_class=keep == "class")
        assert kept is None or (made(kept) and kept[keep == "class"] == asked[keep == "class"])


BARE = {"model__dim": None}
VIEWS = {"objective__loss": "nt_xent", "training__views": 2, "training__sampler": "random"}
UNLABELLED = {**VIEWS, "training__labelled": False, "training__sampler": None}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({**BARE, "model__trains": "head"}, "give the head a size"),
        ({"training__interpolate": [0.5]}, "starts at random; set model.dim=null"),
        ({**BARE, "training__interpolate": [0.5, 1.0], "training__select": "last"}, "nothing validates; name one"),
        ({**BARE, "training__interpolate": [1.5]}, "less than or equal to 1"),
        ({**BARE, "evaluation__sizes": [8]}, "evaluation.sizes has 8"),
        ({"training__resolutions": [8], "training__policy": "affine"}, "set training.policy=random-resized"),
        ({**BARE, "model__head": "whitening"}, "model.head is whitening and model.dim is null"),
        ({"model__head": "white"}, "model.head is 'white'"),
        ({"model__head": "whitening", "model__pooling": "gem"}, "gem learns"),
        ({"model__head": "whitening+trained"}, r"needs cached features; set model\.trains=head"),
        ({"model__backbone": "identity", "model__options": {"features": 4}, "model__image_size": None}, "ready vector"),
        ({"training__labelled": False}, "images without labels need views=2"),
        ({**VIEWS, "training__batch_size": 11}, "the batch must be a multiple of the views"),
        ({"training__views": 2, "objective__loss": "multi_similarity"}, "set training.sampler=random"),
        ({**UNLABELLED, "objective__loss": "proxy_anchor"}, "learns a proxy for each class, .* choose circle"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(tmp_path, changes, words):
    with pytest.raises(UserError, match=words):
        ran(tmp_path, **changes)
    assert not list(tmp_path.rglob("metrics.jsonl"))
