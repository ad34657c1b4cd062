"""The model as one object, held against its plain parts: a forward for each image, cosines, votes."""

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional

import similis
from similis.data.open_data import open_data
from similis.model.answers import Answer, Hit
from similis.training.files import DamagedError
from similis.values import DataError, UserError
from tests.data.pictures import picture, write
from tests.run.small import ran


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Six kinds of four pictures."""
    root = tmp_path_factory.mktemp("photos")
    return write(root, {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(6) for n in range(4)})


@pytest.fixture
def model():
    return similis.pretrained("small_conv", weights=None, size=16, device="cpu")


def by_hand(model, data: bytes):
    """Decode, scale the short side, crop the centre, normalise, one forward: each step in the open."""
    look = model.preprocessing
    image = Image.open(io.BytesIO(data)).convert("RGB")
    width, height = image.size
    if width <= height:
        size = (look.resize, max(look.resize, look.resize * height // width))
    else:
        size = (max(look.resize, look.resize * width // height), look.resize)
    pixels = np.asarray(image.resize(size, Image.Resampling.BILINEAR if look.interpolation == "bilinear" else 3))
    top, left = round((size[1] - look.size) / 2), round((size[0] - look.size) / 2)
    x = torch.from_numpy(pixels[top : top + look.size, left : left + look.size] / 255.0).float().permute(2, 0, 1)
    mean, std = (torch.tensor(v)[:, None, None] for v in (look.mean, look.std))
    with torch.no_grad():
        return model.embedder(((x - mean) / std)[None])[0]


def test_encode_is_decoding_and_a_forward(model):
    data = [picture(seed) for seed in range(5)]
    expected = torch.stack([by_hand(model, one) for one in data])
    assert torch.allclose(model.encode(data), expected, atol=1e-5)
    assert torch.allclose(model.encode(data[3]), expected[3], atol=1e-5)


def test_every_kind_of_item_gives_the_same_embedding(model, tmp_path):
    data = picture(3)
    path = tmp_path / "one.png"
    path.write_bytes(data)
    image = Image.open(path).convert("RGB")
    array = np.asarray(image)
    tensor = torch.from_numpy(array.copy()).permute(2, 0, 1)
    expected = model.encode(data)
    kinds = [str(path), path, data, image, array, array / 255.0, tensor, tensor / 255.0, expected, expected.numpy()]
    for kind in kinds:
        assert torch.allclose(model.encode(kind), expected, atol=1e-5), type(kind)
    assert torch.allclose(model.encode(iter(kinds)), expected.expand(len(kinds), -1), atol=1e-5)
    assert model.encode(np.stack([array, array])).shape == (2, model.dim)
    assert model.encode([]).shape == (0, model.dim)


def test_items_are_read_as_they_are_needed_and_progress_is_told(model):
    read, told = [], []

    def stream():
        for seed in range(600):
            read.append(seed)
            yield picture(seed % 7)

    assert len(model.encode(stream(), progress=lambda done: told.append((done, len(read))))) == 600
    assert told == [(256, 256), (512, 512), (600, 600)]


@pytest.mark.parametrize(
    ("item", "error", "words"),
    [
        ("no/such/photo.jpg", UserError, "there is no file no/such"),
        (b"no image", DataError, "cannot be decoded"),
        (7, UserError, "give a path, encoded bytes"),
        (np.zeros((4, 4, 5), np.uint8), UserError, r"shape \(4, 4, 5\)"),
        (np.full((4, 4, 3), 7.0), UserError, "floating-point numbers from 0 to 1"),
    ],
)
def test_what_is_no_image_is_refused_with_what_to_do(model, item, error, words):
    with pytest.raises(error, match=words):
        model.encode([item])


def test_search_finds_the_nearest_by_cosine(model, photos):
    data = open_data(str(photos))
    model.add(data)
    query = picture(999)
    vectors = functional.normalize(model.encode(data), dim=1)
    alike = vectors @ functional.normalize(model.encode(query), dim=0)
    order = alike.argsort(descending=True)
    found = model.search(query, 5)
    assert [hit.id for hit in found] == [data.values("path")[row] for row in order[:5]]
    assert [hit.label for hit in found] == [data.values("class_name")[row] for row in order[:5]]
    assert [hit.similarity for hit in found] == pytest.approx(alike[order[:5]].tolist(), abs=1e-5)
    assert [[hit.id for hit in hits] for hits in model.search([query, query], 5)] == [[hit.id for hit in found]] * 2
    assert len(model.search(query, 100)) == 24
    assert float(model.similarity(query, data.read_bytes(int(order[0])))) == pytest.approx(
        found[0].similarity, abs=1e-5
    )
    assert model.similarity([query], [picture(1), picture(2)]).shape == (1, 2)


def test_copies_are_found_by_their_contents_or_left_out(model, photos):
    model.add(open_data(str(photos)))
    own = picture(12)
    assert model.search(own, 1)[0].id == "kind1/2.png"
    assert "kind1/2.png" not in [hit.id for hit in model.search(own, 24, copies=False)]


def test_what_is_known_is_not_embedded_again(model, photos):
    seen = []
    model.embedder.register_forward_hook(lambda _module, images, _out: seen.append(len(images[0])))
    model.add(open_data(str(photos)))
    assert sum(seen) == 24
    seen.clear()
    model.add([photos / "kind0" / "0.png", picture(1), picture(500)])
    assert seen == [1]  # only the last is new
    seen.clear()
    model.search(picture(500), 3)
    model.classify(picture(13), unknown=False)
    assert seen == []
    assert len(model.gallery) == 27


def test_a_known_id_is_replaced_and_removed_ids_answer_no_more(model):
    model.add([picture(1), picture(2)], labels=["a", "b"], ids=["x", "y"])
    model.add(picture(3), labels="c", ids=["x"])
    assert {hit.id: hit.label for hit in model.search(picture(3), 5)} == {"x": "c", "y": "b"}
    assert model.search(picture(3), 1) == [Hit("x", "c", pytest.approx(1.0, abs=1e-5))]
    model.remove("x")
    assert [hit.id for hit in model.search(picture(3), 5)] == ["y"]
    with pytest.raises(UserError, match="'x' is not in the gallery"):
        model.remove("x")
    with pytest.raises(UserError, match="2 items, 1 labels and 2 ids"):
        model.add([picture(1), picture(2)], labels=["a"])


def test_classes_are_enrolled_and_forgotten_without_training(model):
    weights = {name: value.clone() for name, value in model.embedder.state_dict().items()}
    black, white, grey = (picture(seed) for seed in (1, 2, 3))
    model.enrol([black], "night")
    model.enrol([white], "day")
    assert model.classify(white, unknown=False).label == "day"
    model.enrol([grey], "dusk")
    assert [answer.label for answer in model.classify([black, white, grey], 1, unknown=False)] == [
        "night",
        "day",
        "dusk",
    ]
    model.forget("dusk")
    assert model.classify(grey, unknown=False).label in ("night", "day")
    with pytest.raises(UserError, match="no image of the gallery has the label 'dusk'"):
        model.forget("dusk")
    assert all(torch.equal(value, weights[name]) for name, value in model.embedder.state_dict().items())


def test_what_is_unlike_the_gallery_is_unknown(model):
    axes = torch.eye(model.dim)
    near = functional.normalize(axes[:10] + 0.05 * axes[10:20], dim=1)
    model.add(torch.cat([axes[:10], near]), labels=[str(n % 10) for n in range(20)], ids=[str(n) for n in range(20)])
    stranger, friend = axes[100], functional.normalize(axes[3] + 0.1 * axes[50], dim=0)
    nobody, third = model.classify([stranger, friend])
    named = model.classify(stranger, unknown=False)
    assert named.label is not None
    assert (nobody.label, nobody.nearest, nobody.similarity) == (None, named.label, 0.0)
    assert nobody.note.startswith(
        f"the most similar image is of {named.label!r} with a similarity of 0.00; known images"
    )
    assert third == Answer("3", pytest.approx(0.995, abs=1e-3), "3", "")
    model.remove([str(n) for n in (3, 13)])
    assert model.classify(friend).label is None  # another gallery, another answer


def test_an_answer_that_is_not_the_first_hit_says_why(model):
    axes = torch.eye(model.dim)
    query = functional.normalize(axes[0] + axes[1], dim=0)
    lone = functional.normalize(query + 0.20 * axes[2], dim=0)
    others = functional.normalize(query + 0.22 * axes[5:7], dim=1)
    far = axes[100:140]
    model.add(torch.cat([lone[None], far]), labels=["many"] * 41, ids=[str(n) for n in range(41)])
    model.add(others, labels=["few"] * 2, ids=["x", "y"])
    assert model.search(query, 1)[0].label == "many"
    found = model.classify(query, unknown=False)
    assert found.label == found.nearest == "few"
    assert found.note.startswith(
        "the most similar image is of 'many' with a similarity of 0.98; 'few' has more near ones"
    )
    assert model.classify(query, k=1, unknown=False).label == "many"


def test_an_empty_gallery_says_what_to_do(model):
    with pytest.raises(UserError, match="the gallery is empty; add images first"):
        model.search(picture(1))
    model.add(picture(1))
    with pytest.raises(UserError, match="no image of the gallery has a label"):
        model.classify(picture(1))


def test_a_saved_model_answers_as_before(model, photos, tmp_path):
    model.add(open_data(str(photos)))
    model.enrol(picture(77), "new")
    place = model.save(tmp_path / "mine")
    again = similis.load(place, device="cpu")
    assert again.search(picture(999), 7) == model.search(picture(999), 7)
    assert torch.equal(again.encode(picture(5)), model.encode(picture(5)))
    assert again.classify(picture(77), 1, unknown=False).label == "new"
    text = (place / "gallery.json").read_text()
    (place / "gallery.json").write_text(text.replace("kind0", "kind9"))
    with pytest.raises(DamagedError):
        similis.load(place)


def test_the_model_of_a_run_is_the_one_that_was_evaluated(tmp_path, photos):
    result = ran(tmp_path, data__source=str(photos), training__batch_size=4, training__epochs=1)
    model = similis.load(result.folder, device="cpu")
    data, kept = open_data(str(photos)), result.embeddings()
    files = [data.read_bytes(row) for row in kept["ids"].tolist()]
    assert torch.allclose(model.encode(files), kept["vectors"], atol=1e-6)
    assert model.dim == 8


def test_many_threads_add_and_search_at_once(model):
    model.add(picture(0), labels="0", ids=["0"])

    def work(number):
        for step in range(15):
            own = f"{number}-{step}"
            model.add(picture(100 * number + step), labels=str(number), ids=[own])
            hits = model.search(picture(100 * number + step), 200)
            assert own in {hit.id for hit in hits}
            if step % 3 == 0:
                model.remove(own)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(1, 5)))
    assert len(model.gallery) == 1 + 4 * 10
    for hit in model.search(picture(101), 100):
        if hit.id != "0":
            number, step = map(int, hit.id.split("-"))
            assert hit.similarity == pytest.approx(
                float(model.similarity(picture(101), picture(100 * number + step))), abs=1e-5
            )


def test_same_or_different_by_a_threshold_that_the_gallery_gives(model):
    axes = torch.eye(model.dim)
    spread = functional.normalize(axes[:8].repeat(6, 1) + 0.3 * axes[8:56], dim=1)
    model.add(spread, labels=[str(n % 8) for n in range(48)], ids=[str(n) for n in range(48)])
    limit = model.threshold(far=0.01)
    alike = spread @ spread.T
    other = torch.arange(48)[:, None] % 8 != torch.arange(48) % 8
    assert float((alike[other] >= limit).float().mean()) <= 0.01
    assert float((alike[~other] >= limit).float().mean()) > 0.9
    assert model.same(spread[0], spread[8], far=0.01)
    assert not model.same(spread[0], spread[1], far=0.01)
    for entry in model.gallery.contents().entries:
        model.remove(entry.id)
    with pytest.raises(UserError, match="add images of two classes or more"):
        model.threshold(far=0.01)


def test_numbers_are_good_labels_and_nothing_gives_nothing(model):
    model.add([picture(1), picture(2)], labels=[1, 2], ids=[10, 20])
    assert [(hit.id, hit.label) for hit in model.search(picture(1), 1)] == [("10", "1")]
    assert model.classify([], unknown=False) == []
    assert model.search([], 3) == []
    assert model.similarity([], [picture(1)]).shape == (0, 1)
    model.add([])
    model.remove([10])
    with pytest.raises(UserError, match=r"the only label of the gallery is '2'.*unknown=False"):
        model.classify(picture(1))
    with pytest.raises(UserError, match="k"):
        model.search(picture(1), 0)
