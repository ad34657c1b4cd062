"""A run that goes on from another model begins with its weights and proxies, and tests on what neither has seen."""

import json

import pytest
import torch

from similis.cli import main
from similis.model.load import load
from similis.run.machine import Machine, Watch
from similis.run.prepared import prepare
from similis.run.run import prepare_parts, run
from similis.run.spec import parse_spec
from similis.run.stage import Stage, build_task
from similis.run.trained_on import TrainedOn
from similis.run.warm_start import keep_training
from similis.training.folder import RunFolder
from similis.training.tensors import read_tensors
from similis.values import UserError

SMALL = {
    "data": {"source": "synthetic?classes=12&images=6&size=16"},
    "model": {"backbone": "small_conv", "weights": None, "dim": 8, "image_size": 16},
    "training": {"epochs": 1, "batch_size": 10},
}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return run(parse_spec(SMALL), Machine(root=tmp_path_factory.mktemp("runs")))


def go_on(first, classes=12, **changes):
    values = {**SMALL, "data": {"source": f"synthetic?classes={classes}&images=6&size=16"}}
    return parse_spec(values | {"model": {**SMALL["model"], "weights": str(first.folder)}} | changes)


def test_network_is_the_one_that_was_trained(first):
    prepared = prepare(go_on(first), Machine(root=first.folder.parent))
    found, saved = prepared.network.built.state_dict(), read_tensors(first.folder / "model.safetensors")[0]
    assert found.keys() == {key.removeprefix("model/") for key in saved}
    assert all(torch.equal(found[key.removeprefix("model/")], value) for key, value in saved.items())


def test_proxies_of_classes_that_stay_go_on(first):
    prepared = prepare(go_on(first, classes=20), Machine(root=first.folder.parent))
    step = prepared.steps[-1]
    parts = prepare_parts(prepared)
    folder = RunFolder(first.folder, "")
    task = build_task(Stage(step.name, prepared, parts, step.rows, 1, folder, Watch()))
    kept, described = read_tensors(first.folder / "proxies.safetensors")
    ((name, before),) = kept.items()
    known = dict(zip(json.loads(described["classes"]), before, strict=True))
    classes = list(prepared.source.manifest.classes(step.rows).values())
    stay = [row for row, each in enumerate(classes) if each in known]
    assert 0 < len(stay) < len(classes)
    after = task.loss.learned[name]
    assert all(torch.equal(after[row], known[classes[row]]) for row in stay)
    others = [row for row in range(len(classes)) if row not in stay]
    assert not any(torch.equal(after[row], vector) for row in others for vector in before)


@pytest.mark.parametrize("by_contents", [False, True])
def test_classes_that_trained_the_start_are_not_tested(by_contents, tmp_path):
    source = prepare(parse_spec(SMALL), Machine(root=tmp_path)).source
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
    again = run(go_on(first), Machine(root=first.folder.parent))
    assert again.before[0]["recall@1"] == pytest.approx(first.test["recall@1"])
    assert again.before[0]["start"] == first.folder.name
    assert load(again.folder).trained_on.classes >= load(first.folder).trained_on.classes
    assert again.address != first.address


def test_command_takes_the_network_from_the_run(first, capsys):
    words = ["train", SMALL["data"]["source"], "--from", str(first.folder), "--epochs", "1", "--batch", "10"]
    with pytest.raises(SystemExit, match=r"^0$"):
        main([*words, "--runs", str(first.folder.parent), "--no-pictures"])
    assert f"{first.folder.name}, which it went on from" in " ".join(capsys.readouterr().out.split())


def test_folder_without_a_model_says_what_to_give(tmp_path):
    values = {**SMALL, "model": {**SMALL["model"], "weights": str(tmp_path)}}
    with pytest.raises(UserError, match="not known"):
        prepare(parse_spec(values), Machine(root=tmp_path))
