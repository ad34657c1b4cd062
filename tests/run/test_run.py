"""A run is exact: twice the same, the same for any number of workers, another with another seed; and it says all."""

import json
import math
from collections import Counter

import pytest
import torch

from similis.networks.text import save_similarity, similarity_of_names
from similis.retrieval.evaluate import evaluate
from similis.run.address import NUMERICS
from similis.run.machine import Machine, Watch
from similis.run.parts import build_objective, open_source
from similis.training.folder import RunFolder
from similis.training.optimisers import Schedule
from similis.training.tensors import read_tensors
from similis.values import Embedded, UserError
from tests.data.pictures import picture, write
from tests.networks.letters import by_letters
from tests.run.small import ran, remains, small


class Count(Watch):
    """Looks on, and counts what it sees."""

    def __init__(self):
        self.stages, self.steps, self.validations, self.mined = [], 0, [], []

    def on_stage_start(self, stage, epochs, steps, done):
        self.stages.append((stage, epochs, steps, done))

    def on_step(self, report, mined):
        self.steps += 1
        self.mined.append(dict(mined))

    def on_validation(self, epoch, value, best):
        self.validations.append((epoch, value, best))


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """One run that several tests look at."""
    return ran(tmp_path_factory.mktemp("first"))


def test_a_second_call_returns_the_first_result_without_working(first):
    watch = Count()
    again = ran(first.folder.parent, watch)
    assert again.to_json() == json.loads(json.dumps(first.to_json()))
    assert (watch.stages, watch.steps) == ([], 0)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than cores are the point here
@pytest.mark.parametrize("workers", [0, 1, pytest.param(3, marks=pytest.mark.slow)])
def test_run_anew_with_any_number_of_workers_gives_the_same_bits(first, workers, tmp_path):
    again = ran(tmp_path, workers=workers)
    assert again.address == first.address
    assert remains(again.folder) == remains(first.folder)


def test_another_seed_gives_other_numbers_at_another_address(first, tmp_path):
    other = ran(tmp_path, seed=1)
    assert other.address != first.address
    assert other.facts["split"] == first.facts["split"]  # the split has a seed of its own
    weights = [read_tensors(r.folder / "model.safetensors")[0]["model/head.weight"] for r in (first, other)]
    assert not torch.equal(*weights)
    assert other.scores()["similarity"].tolist() != first.scores()["similarity"].tolist()


def test_the_result_is_that_of_the_embeddings_it_left(first):
    """R@1 in the result, evaluated again from the folder's embeddings."""
    tensors, _ = read_tensors(first.folder / "embeddings.safetensors")
    found = evaluate(Embedded(tensors["vectors"], tensors["labels"], tensors["ids"]))
    assert dict(found.means) == pytest.approx(dict(first.test))
    scores = first.scores()
    assert float(scores["recall@1"].mean()) == pytest.approx(first.test["recall@1"])
    right = scores["labels"] == open_source(first.spec, Machine()).manifest.labels[scores["neighbors"][:, 0]]
    assert float(right.double().mean()) == pytest.approx(first.test["recall@1"])


def test_fixed_validation_chooses_and_the_final_model_is_refit(first):
    assert (first.selected_on, first.trained_on) == ("validation", "training classes")
    assert first.epochs == first.history.index(max(first.history)) + 1
    assert first.validation == {"recall@1": max(first.history)}
    counts = first.facts["images"]
    assert (counts["train"], counts["validation"], counts["test"]) == (24, 12, 36)
    steps = Counter(r["stage"] for r in RunFolder(first.folder).records() if "loss" in r)
    assert steps == {"select": 2 * 24 // 12, "refit": first.epochs * 36 // 12}


def test_without_refit_the_result_says_so(tmp_path):
    watch = Count()
    result = ran(tmp_path, watch, training__refit=False)
    assert result.trained_on == "training classes without validation"
    assert [stage for stage, *_ in watch.stages] == ["select"]
    assert [epoch for epoch, *_ in watch.validations] == [1, 2]
    assert [value for _, value, _ in watch.validations] == list(result.history)


def test_protocol_default_says_that_it_selected_on_test(tmp_path):
    result = ran(tmp_path, data__protocol="default")
    assert (result.selected_on, result.trained_on) == ("test", "training classes")
    assert result.facts["images"]["validation"] == 0
    assert result.validation["recall@1"] == result.test["recall@1"]


def test_a_fold_of_cross_validation_trains_without_it(tmp_path):
    result = ran(tmp_path, data__protocol="cross-validation", data__folds=3, data__fold=1)
    assert (result.selected_on, result.trained_on) == ("validation", "training classes without validation")


def test_no_epochs_evaluate_the_untrained_model(tmp_path):
    result = ran(tmp_path, training__epochs=0)
    assert (result.epochs, result.selected_on, result.trained_on, result.history) == (0, "nothing", "nothing", ())
    assert 0 < result.test["recall@1"] <= 1


def test_without_any_classes_to_choose_by_all_epochs_are_trained(tmp_path):
    photos = write(tmp_path / "photos", {f"{c}/{n}.png": picture(10 * c + n) for c in range(3) for n in range(4)})
    data = {"data__source": str(photos), "data__protocol": "default", "data__test_share": 0}
    result = ran(tmp_path, **data, training__batch_size=6)
    assert (result.epochs, result.selected_on, result.validation, result.test) == (2, "nothing", {}, {})


def test_the_test_split_can_stay_closed_and_an_opening_is_noted(first, tmp_path):
    closed = ran(tmp_path, evaluation__test=False)
    assert (dict(closed.test), closed.scores()) == ({}, {})
    assert not [r for r in RunFolder(closed.folder).records() if "opened" in r]
    assert [r["images"] for r in RunFolder(first.folder).records() if "opened" in r] == [36]


def test_patience_stops_early(tmp_path):
    result = ran(tmp_path, training__epochs=6, training__patience=1, training__lr=1e-9, training__refit=False)
    assert result.epochs == 1
    assert len(result.history) == 2


def test_a_refit_keeps_the_schedule_in_which_its_length_was_chosen(tmp_path, monkeypatch):
    """One of four epochs is chosen: the refit ends where the cosine of four epochs is after one."""
    rates, factor = [], Schedule.factor
    monkeypatch.setattr(Schedule, "factor", lambda self, *place: rates.append(factor(self, *place)) or rates[-1])
    changes = {"training__epochs": 4, "training__patience": 1, "training__lr": 1e-9, "training__schedule": "cosine"}
    result = ran(tmp_path, **changes)
    steps = [record["stage"] for record in RunFolder(result.folder).records() if "loss" in record]
    refit = [rate for rate, stage in zip(rates, steps, strict=True) if stage == "refit"]
    assert (result.epochs, len(refit)) == (1, 3)
    assert refit == pytest.approx([0.5 * (1 + math.cos(math.pi * step / 12)) for step in range(3)])


def test_a_miner_is_counted_and_its_draws_are_the_seeds(tmp_path):
    watch = Count()
    changes = {"objective__loss": "triplet", "objective__miner": "distance_weighted"}
    result = ran(tmp_path / "a", watch, **changes)
    assert all(counts["tuples"] > 0 for counts in watch.mined)
    assert remains(ran(tmp_path / "b", **changes).folder) == remains(result.folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"objective__loss": "multi_similarity", "objective__memory": 30, "objective__memory_start": 1},
        {"objective__loss": "multi_similarity", "objective__memory": 30, "objective__nested_sizes": [2, 8]},
        {"objective__nested_sizes": [2, 8]},
        {"model__pooling": "gem"},
        {"training__average_decay": 0.5},
        {"training__chunk": 5, "model__options": {"norm": "group"}},
        {"training__frozen_epochs": 1, "training__schedule": "cosine", "training__ramp_steps": 2},
        {"training__optimiser": "sgd", "training__sampler": "balanced", "training__policy": "resize-crop"},
    ],
    ids=lambda changes: "+".join(key.partition("__")[2] for key in changes),
)
def test_every_part_of_a_specification_changes_the_weights_and_repeats(changes, first, tmp_path):
    result = ran(tmp_path / "a", **changes)
    assert remains(ran(tmp_path / "b", **changes).folder) == remains(result.folder)
    weights = [read_tensors(r.folder / "model.safetensors")[0] for r in (first, result)]
    assert any(not torch.equal(weights[1][key], value) for key, value in weights[0].items() if key in weights[1])


def words(names, path, template="a photo of a {}"):
    """The file of these names' similarities."""
    save_similarity(similarity_of_names(names, by_letters, source="letters", template=template), path)
    return str(path)


def test_language_guidance_enters_by_a_file(tmp_path):
    names = open_source(small(), Machine()).manifest.class_names
    path = words(names, tmp_path / "words.safetensors")
    spec = {"objective__loss": "multi_similarity", "objective__language": path}
    with_words, without = ran(tmp_path, **spec), ran(tmp_path, objective__loss="multi_similarity")
    first_loss = [next(iter(RunFolder(r.folder).records()))["loss"] for r in (with_words, without)]
    assert first_loss[0] != first_loss[1]
    words(names, path, "{}")  # another matrix under the same name
    assert ran(tmp_path, **spec).address != with_words.address


def test_language_guidance_finds_classes_by_name(tmp_path):
    names = open_source(small(), Machine()).manifest.class_names
    spec = small(objective__loss="multi_similarity")
    classes = {3: names[3], 5: names[5], 7: names[7]}
    matrices = []
    for order in (names, names[::-1]):
        path = words(order, tmp_path / "words.safetensors")
        with_words = spec.model_copy(update={"objective": spec.objective.model_copy(update={"language": path})})
        matrices.append(build_objective(with_words, classes, 8).state_dict())
    assert matrices[0].keys() == matrices[1].keys()
    assert any(value.shape == (3, 3) for value in matrices[0].values())
    assert all(torch.equal(value, matrices[1][key]) for key, value in matrices[0].items())
    with pytest.raises(UserError, match="unknown class name 'owl'"):
        build_objective(with_words, {0: "owl"}, 8)


def test_a_frozen_backbone_is_computed_once_and_its_head_learns(tmp_path):
    changes = {"model__trains": "head", "training__epochs": 3, "training__refit": False}
    result = ran(tmp_path, **changes)
    cached = list((tmp_path / "features").iterdir())
    assert len(cached) == 1
    stamp = cached[0].stat().st_mtime_ns
    other = ran(tmp_path, **changes, objective__loss="triplet")
    assert [p.stat().st_mtime_ns for p in (tmp_path / "features").iterdir()] == [stamp]
    untrained = ran(tmp_path, training__epochs=0)
    start, ends = (read_tensors(r.folder / "model.safetensors")[0] for r in (untrained, result))
    changed = {key.partition(".")[0] for key in start if not torch.equal(start[key], ends[key])}
    assert changed == {"model/head"}
    assert other.address != result.address


def test_damaged_features_are_computed_again(tmp_path, caplog):
    changes = {"model__trains": "head", "training__epochs": 1, "training__refit": False}
    sound = ran(tmp_path / "sound", **changes)
    (cached,) = (tmp_path / "sound" / "features").iterdir()
    there = tmp_path / "damaged" / "features" / cached.name
    there.parent.mkdir(parents=True)
    there.write_bytes(cached.read_bytes()[:-100])
    assert remains(ran(tmp_path / "damaged", **changes).folder) == remains(sound.folder)
    assert "computed again" in caplog.text
    assert there.read_bytes() == cached.read_bytes()


def test_features_of_two_networks_are_not_mixed_up(tmp_path):
    for options in ({}, {"width": "wide"}):
        ran(tmp_path, model__trains="head", model__options=options, training__epochs=1)
    assert len(list((tmp_path / "features").iterdir())) == 2


def test_spec_and_environment_are_in_the_folder(first):
    folder = RunFolder(first.folder)
    assert folder.read("spec.json") == small().model_dump(mode="json")
    environment = folder.read("environment.json")
    assert environment["numerics"] == first.facts["numerics"] == NUMERICS
    assert environment["packages"]["torch"] == torch.__version__.partition("+")[0] or "+" in torch.__version__


def test_leading_coordinates_are_tested_as_the_embedding_of_that_size(tmp_path):
    result = ran(tmp_path, evaluation__sizes=(3, 8))
    found = read_tensors(result.folder / "embeddings.safetensors")[0]
    cut = evaluate(Embedded(found["vectors"][:, :3], found["labels"], found["ids"]), ks=(1,))
    assert result.test["recall@1 of 3"] == pytest.approx(cut.means["recall@1"])
    assert result.test["recall@1 of 8"] == result.test["recall@1"]
