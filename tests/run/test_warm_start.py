"""A run that goes on from another model begins with its weights and proxies, and tests on what neither has seen."""

import json

import pytest
import torch

from similis.cli import main
from similis.model.load import load
from similis.run.machine import Machine
from similis.run.prepared import prepare
from similis.run.stage import build_task
from similis.run.trained_on import TrainedOn
from similis.run.warm_start import keep_training
from similis.training.tensors import read_tensors
from similis.values import UserError
from tests.run.small import VALUES, ran, small, stage_of


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return ran(tmp_path_factory.mktemp("runs"), training__epochs=1)


def go_on(first, classes=12):
    """Changes of a run that goes on from it."""
    source = f"synthetic?classes={classes}&images=6&size=16"
    return {"data__source": source, "model__weights": str(first.folder), "training__epochs": 1}


def test_network_is_the_one_that_was_trained(first):
    prepared = prepare(small(**go_on(first)), Machine(root=first.folder.parent))
    found, saved = prepared.network.built.state_dict(), read_tensors(first.folder / "model.safetensors")[0]
    assert found.keys() == {key.removeprefix("model/") for key in saved}
    assert all(torch.equal(found[key.removeprefix("model/")], value) for key, value in saved.items())


def test_proxies_of_classes_that_stay_go_on(first, tmp_path):
    stage = stage_of(tmp_path, **go_on(first, classes=20))
    task = build_task(stage)
    kept, described = read_tensors(first.folder / "proxies.safetensors")
    ((name, before),) = kept.items()
    known = dict(zip(json.loads(described["classes"]), before, strict=True))
    classes = list(stage.source.manifest.classes(stage.rows).values())
    stay = [row for row, each in enumerate(classes) if each in known]
    assert 0 < len(stay) < len(classes)
    after = task.loss.learned[name]
    assert all(torch.equal(after[row], known[classes[row]]) for row in stay)
    others = [row for row in range(len(classes)) if row not in stay]
    assert not any(torch.equal(after[row], vector) for row in others for vector in before)


@pytest.mark.parametrize("by_contents", [False, True])
def test_classes_that_trained_the_start_are_not_tested(by_contents, tmp_path):
    source = prepare(small(), Machine(root=tmp_path)).source
    names, contents = source.manifest.values("class_name"), source.manifest.values("content")
    rows = source.split.test.tolist()
    chosen = {names[rows[0]], names[rows[-1]]}
    images = {contents[row] for row in rows if names[row] in chosen}
    seen = TrainedOn(frozenset(images if by_contents else ()), frozenset(() if by_contents else chosen))
    split = keep_training(source.manifest, source.split, seen)
    assert {names[row] for row in split.test.tolist()} == {names[row] for row in rows} - chosen
    assert {names[row] for row in split.train.tolist()} >= chosen
    assert split.fingerprint != source.split.fingerprint


def test_no_epoch_measures_the_model_itself_and_one_records_both(first):
    again = ran(first.folder.parent, **go_on(first))
    assert again.before[0]["recall@1"] == pytest.approx(first.test["recall@1"])
    assert again.before[0]["start"] == first.folder.name
    assert load(again.folder).trained_on.classes >= load(first.folder).trained_on.classes
    assert again.address != first.address


def test_command_takes_the_network_from_the_run(first, capsys):
    words = ["train", VALUES["data"]["source"], "--from", str(first.folder), "--epochs", "1", "--batch", "10"]
    with pytest.raises(SystemExit, match=r"^0$"):
        main([*words, "--runs", str(first.folder.parent), "--no-pictures"])
    assert f"{first.folder.name}, which it went on from" in " ".join(capsys.readouterr().out.split())


def test_folder_without_a_model_says_what_to_give(tmp_path):
    with pytest.raises(UserError, match="not known"):
        ran(tmp_path, model__weights=str(tmp_path))
