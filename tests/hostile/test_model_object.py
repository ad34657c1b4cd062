"""The model object asked in ways that once changed an answer, the caller's image, or ended in a traceback."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional

import similis
from similis.model.verification import Threshold
from similis.objective.wrappers.guided import Guided
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.objective.wrappers.nested import Nested
from similis.values import SimilisError, UserError
from tests.data.pictures import picture
from tests.hostile.refusals import check_sentence


@pytest.fixture
def model():
    return similis.pretrained("small_conv", weights=None, size=16, device="cpu")


def spread(model, classes: int = 8, each: int = 6):
    """Unit vectors around the first axes, with the labels of these."""
    axes, count = torch.eye(model.dim), classes * each
    rows = functional.normalize(axes[:classes].repeat(each, 1) + 0.3 * axes[classes : classes + count], dim=1)
    return rows, [str(n % classes) for n in range(count)]


def test_a_question_changes_no_threshold_that_was_chosen(model, tmp_path):
    rows, labels = spread(model)
    model.add(rows, labels=labels, ids=[str(n) for n in range(len(rows))])
    model.chosen = kept = Threshold(0.01, 0.7, 0.6, 0.8, ("a", "b"), "unseen photos", "")
    assert model.threshold(far=0.1) != kept.value
    model.same(rows[0], rows[8], far=0.1)
    model.cluster(rows)
    assert model.chosen == kept
    assert model.threshold(far=0.01) == kept.value
    assert similis.load(model.save(tmp_path / "kept"), device="cpu").chosen == kept


def test_a_threshold_of_the_gallery_follows_the_gallery(model, tmp_path):
    rows = torch.rand(60, model.dim, generator=torch.Generator().manual_seed(0))
    model.add(rows, labels=[str(n % 6) for n in range(60)], ids=[str(n) for n in range(60)])
    before = model.threshold(far=0.1)
    model.remove([str(n) for n in range(30)])
    assert model.threshold(far=0.1) != before
    assert model.chosen is None
    assert not (model.save(tmp_path / "mine") / "threshold.json").exists()


@pytest.mark.parametrize("ask", ["encode", "search", "explain", "classify"])
def test_an_image_of_the_caller_stays_as_it_is(model, ask):
    held = io.BytesIO()
    Image.effect_noise((900, 700), 90).convert("RGB").save(held, "JPEG")
    data = held.getvalue()
    model.add([picture(1), picture(2)], labels=["a", "b"])
    image = Image.open(io.BytesIO(data))
    calls = {
        "encode": lambda: model.encode(image), "search": lambda: model.search(image),
        "explain": lambda: model.explain(image, picture(1)), "classify": lambda: model.classify(image, unknown=False),
    }  # fmt: skip
    calls[ask]()
    assert image.size == (900, 700)
    assert (np.asarray(image) == np.asarray(Image.open(io.BytesIO(data)))).all()


def test_encode_and_search_see_the_same_pixels_of_a_large_photo(model):
    held = io.BytesIO()
    Image.effect_noise((900, 700), 90).convert("RGB").save(held, "JPEG")
    encoded = model.encode(Image.open(io.BytesIO(held.getvalue())))
    model.add(encoded, ids=["it"])
    assert model.search(Image.open(io.BytesIO(held.getvalue())), 1)[0].similarity == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_vectors_that_are_not_finite_are_refused_and_leave_the_gallery_as_it_was(model, number, tmp_path):
    model.add(torch.eye(model.dim)[:2], labels=["a", "b"], ids=["1", "2"])
    wrong = torch.eye(model.dim)[:2].clone()
    wrong[1, 3] = number
    with pytest.raises(SimilisError, match="not finite"):
        model.add(wrong, labels=["a", "b"], ids=["1", "3"])
    assert [entry.id for entry in model.gallery.contents().entries] == ["1", "2"]
    assert model.search(torch.eye(model.dim)[0], 1)[0].id == "1"
    similis.load(model.save(tmp_path / "sound"), device="cpu")


@pytest.mark.parametrize(
    "items", [None, 5, torch.tensor(5), [None], [5], object()], ids=["None", "5", "scalar", "[None]", "[5]", "object"]
)
@pytest.mark.parametrize("ask", ["encode", "search", "classify", "add", "enrol", "similarity", "cluster"])
def test_what_is_no_item_raises_a_sentence(model, items, ask):
    model.add([picture(1), picture(2)], labels=["a", "b"])
    calls = {
        "encode": model.encode, "search": model.search, "classify": model.classify, "add": model.add,
        "enrol": lambda given: model.enrol(given, "c"), "similarity": lambda given: model.similarity(given, picture(1)),
        "cluster": model.cluster,
    }  # fmt: skip
    with pytest.raises(UserError) as caught:
        calls[ask](items)
    assert "give" in check_sentence(caught.value)


def test_a_grey_array_is_an_image(model):
    grey = np.random.default_rng(0).integers(0, 256, (30, 40), dtype=np.uint8)
    expected = model.encode(np.stack([grey] * 3, axis=2))
    for kind in (grey, torch.from_numpy(grey), grey[..., None], Image.fromarray(grey)):
        assert torch.allclose(model.encode(kind), expected, atol=1e-6)
    assert model.encode([grey, grey]).shape == (2, model.dim)


@pytest.mark.parametrize("length", [1, 3, 300])
def test_a_vector_of_another_length_raises_a_sentence(model, length):
    for call in (model.encode, model.search, lambda item: model.add([item], ids=["x"])):
        model.add(picture(1), ids=["one"])
        with pytest.raises(UserError, match=f"{length} numbers; this model takes {model.dim}"):
            call(np.zeros(length, np.float32))


def test_a_number_is_one_label_in_every_call(model):
    model.add([picture(1), picture(2), picture(3)], labels=[3, 3, 4])
    model.add([picture(4)], labels=4)
    assert {hit.label for hit in model.search(picture(1), 4, label=3)} == {"3"}
    model.forget(3)
    assert [entry.label for entry in model.gallery.contents().entries] == ["4", "4"]


def test_a_plain_loader_is_embedded_and_verified_without_ids():
    loader = [(torch.eye(6)[i : i + 2].repeat(3, 1), ["a", "b"] * 3) for i in (0, 2, 4)]
    found = similis.embed(torch.nn.Identity(), loader)
    assert found.ids.tolist() == list(range(18))
    report = similis.verify(found.vectors, ["x", "y", "z"] * 6, far=0.1)
    again = similis.verify(similis.embed(torch.nn.Identity(), loader)._replace(labels=torch.arange(18) % 3), far=0.1)
    assert report.eer == again.eer
    with pytest.raises(UserError, match=r"\(images, labels\)"):
        similis.embed(torch.nn.Identity(), [torch.eye(3)])


@pytest.mark.parametrize("wrap", [
    lambda loss: CrossBatchMemory(loss, size=8, dim=4),
    lambda loss: Nested(loss, (2, 4)),
    lambda loss: Guided(loss, torch.eye(2)),
])  # fmt: skip
def test_every_wrapper_hands_its_parameters_to_an_optimiser(wrap):
    loss = similis.loss("proxy_anchor", num_classes=3, dim=4)
    (group,) = wrap(loss).parameter_groups(lr=0.01)
    assert group["lr"] == pytest.approx(1.0)
    assert group["params"][0] is loss.learned["proxies"]


def test_images_that_look_different_are_no_copies_of_each_other(model):
    indices = np.random.default_rng(1).integers(0, 4, (20, 20), dtype=np.uint8)
    red, blue = (Image.fromarray(indices, "P") for _ in range(2))
    red.putpalette([255, 0, 0, 200, 30, 0, 120, 0, 0, 60, 0, 0])
    blue.putpalette([0, 0, 255, 0, 30, 200, 0, 0, 120, 0, 0, 60])
    exif = Image.Exif()
    exif[0x0112] = 6
    held = io.BytesIO()
    red.convert("RGB").save(held, "PNG", exif=exif)
    turned = Image.open(io.BytesIO(held.getvalue()))
    model.add([red], labels="red", ids=["red"])
    for other in (blue, turned):
        expected = float(functional.cosine_similarity(model.encode(red), model.encode(other), dim=0))
        assert model.search(other, 1, copies=False)[0].similarity == pytest.approx(expected, abs=1e-5)
    assert model.search(red.convert("RGB"), 1, copies=False) == []  # the same pixels are a copy


def test_a_data_set_takes_the_label_and_ids_that_are_given(model):
    data = similis.open_data("synthetic?classes=4&images=2&size=16")
    model.enrol(data, "citrus")
    assert model.gallery.contents().label_counts() == {"citrus": 8}
    model.add(data, labels=torch.arange(8), ids=list("abcdefgh"))
    assert model.gallery.find("c")[0].label == "2"
    for wrong in ({"labels": ["one"]}, {"ids": ["one"]}):
        with pytest.raises(UserError, match="8"):
            model.add(data, **wrong)
    with pytest.raises(UserError, match="the name of their class"):
        model.enrol([picture(1)], None)


def test_more_neighbours_than_images_cost_no_memory(model):
    model.add([picture(n) for n in range(4)], labels=["a", "a", "b", "b"])
    assert len(model.search(picture(1), 10**9)) == 4
    assert model.classify(picture(1), k=10**9, unknown=False).label == "a"


def test_an_error_names_the_item_among_all(model):
    with pytest.raises(SimilisError, match="item 300"):
        model.add([*[picture(n % 9) for n in range(300)], b"no image"])
