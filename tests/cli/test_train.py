"""``similis train`` as a user meets it: a folder of photos becomes numbers and pictures."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml

from similis.cli.asked_spec import asked_keys, open_asked
from similis.cli.train_report import next_commands, remarks
from similis.model.pictures import draw_run_curves
from similis.run.fitted_settings import fit_batch
from similis.run.machine import Machine
from similis.run.result import read_result
from similis.training.folder import RunFolder
from tests.cli.test_main import ended
from tests.data.pictures import picture, write
from tests.run.small import VALUES

SMALL = ["--backbone", "small_conv", "--size", "16", "--dim", "8", "--epochs", "1"]


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder of eight class folders, and an empty place to work in."""
    write(tmp_path / "photos", {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(8) for n in range(4)})
    monkeypatch.chdir(tmp_path)
    return "photos"


def asked(source, keys):
    """The specification of a command, with a batch that the images can make."""
    return open_asked(source, keys, Machine(), fit_batch).spec


def run_folder(path):
    (folder,) = (p for p in (path / "runs").glob("[!.]*") if p.is_dir())
    return folder


def test_a_folder_of_photos_needs_no_config_file(photos, tmp_path, capsys):
    assert ended(["train", photos, *SMALL]) == 0
    out = capsys.readouterr().out
    folder = run_folder(tmp_path)
    result = json.loads((folder / "result.json").read_text())
    for words in ("MAP@R %", "trained, 16 pixels", f"{100 * result['test']['recall@1']:.1f}", "images/s"):
        assert words in out
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert out.splitlines()[-1].split() == ["report", str(folder.relative_to(tmp_path) / "report.html")]
    row = result["before"][0]
    assert f"Of 16 queries, training fixed {row['fixed']} and broke {row['broke']}." in out
    read = read_result(RunFolder(folder))
    for kept, names in ((read, ["untrained", "trained"]), (replace(read, selected_on="test"), ["untrained"])):
        labels = [line.get_label() for line in draw_run_curves(kept).axes[1].lines[2:]]
        assert [label.partition(": ")[0] for label in labels] == [f"test classes, {name}" for name in names]
    assert result["spec"]["training"]["batch_size"] == 8  # all that two of four classes have
    assert result["facts"]["images"] == {"train": 8, "validation": 8, "test": 16}
    assert result["spec"]["model"]["freeze_batch_norm"] is False

    stamp = (folder / "report.html").stat().st_mtime_ns
    assert ended(["train", photos, *SMALL]) == 0
    again = capsys.readouterr().out
    told = again[again.index("network  ") : again.index("\nnext\n")]
    assert told in out  # the table, and no training
    assert "small_conv" not in again  # settings are asked for
    assert "images/s" not in again
    assert (folder / "report.html").stat().st_mtime_ns == stamp
    assert ended(["train", photos, *SMALL, "--no-photos"]) == 0
    assert "data:image/webp" not in (folder / "report.html").read_text()


def test_a_plan_comes_before_training_and_not_before_a_run_that_is_done(photos, tmp_path, capsys):
    for empty in ("eel", "owl"):
        (tmp_path / photos / empty).mkdir()
    assert ended(["train", photos, *SMALL, "--no-pictures"]) == 0
    plan = capsys.readouterr().out.partition("training: 1 epochs")[0]
    assert "images      8 of 2 classes train, 8 of 2 classes validate, 16 of 4 classes test" in plan
    assert "left out    2 folders without images: 'eel', 'owl'" in plan
    assert "too few validation images to choose the number of epochs" in plan
    assert re.search(r"plan +16 pixels, batches of 8, 0 loader processes: at most about \d+ s, [\d.]+ GB, and up", plan)
    spec = json.loads((run_folder(tmp_path) / "spec.json").read_text())
    assert (spec["data"]["validation_share"], spec["model"]["image_size"]) == (0.3, 16)
    assert ended(["train", photos, *SMALL, "--no-pictures"]) == 0
    again = capsys.readouterr().out
    assert "at most about" not in again
    assert len(list((tmp_path / "runs").glob("[!.]*"))) == 1


def test_all_classes_train_and_nothing_is_tested(photos, tmp_path, capsys):
    assert ended(["train", photos, *SMALL, "--all-classes"]) == 0
    out = capsys.readouterr().out
    assert "images      32 of 8 classes train\n" in out
    assert "No class was held out" in out
    assert not any(words in out for words in ("MAP@R", "untrained", "Training helped"))
    result = json.loads((run_folder(tmp_path) / "result.json").read_text())
    assert (result["test"], result["before"], result["epochs"]) == ({}, [], 1)
    assert result["trained_on"] == "all classes"
    assert ended(["verify", str(run_folder(tmp_path)), str(tmp_path / photos)]) == 2
    assert "has trained on every class" in capsys.readouterr().err


def test_all_classes_train_also_where_the_data_state_test_classes(tmp_path, capsys):
    files = {f"{part}/{part}{c}/{n}.png": picture(100 * len(part) + 10 * c + n)
             for part in ("train", "test") for c in range(3) for n in range(4)}  # fmt: skip
    photos = str(write(tmp_path / "photos", files))
    assert ended(["train", photos, *SMALL, "--runs", str(tmp_path / "runs"), "--all-classes", "--no-pictures"]) == 0
    assert "images      24 of 6 classes train\n" in capsys.readouterr().out


def result_of(validation, test, classes):
    """What the remarks look at."""
    return SimpleNamespace(
        selected_on="validation",
        validation={"recall@1": validation},
        test={"recall@1": test},
        facts={"images": {"validation": 16, "test": 64}, "classes": {"validation": classes, "test": 8}},
    )


def test_a_large_gap_between_validation_and_test_is_explained():
    (said,) = remarks(result_of(0.9375, 0.2969, 2))
    assert "64 points above" in said
    assert "16 images of 2 classes validate, 64 images of 8 classes test" in said
    assert remarks(result_of(0.35, 0.30, 2)) == []
    assert remarks(result_of(0.9, 0.3, 8)) == []  # not for want of classes


@pytest.mark.parametrize(("pixels", "wanted"), [(160, "--size 224"), (224, "--recipe careful")])
def test_after_a_training_that_hurt_other_commands_come_next(pixels, wanted):
    row = {"recall@1": 0.5, "pixels": 224, "gain": {"recall@1": [-0.1, -0.2, -0.05]}}
    spec = SimpleNamespace(data=SimpleNamespace(source="photos"))
    facts = {"preprocessing": {"size": pixels}}
    hurt = next_commands(SimpleNamespace(before=[row], spec=spec, facts=facts, folder="runs/photos-1"))
    assert [words for words in hurt if "train" in words][1].endswith(wanted)
    row["gain"] = {"recall@1": [0.1, 0.05, 0.2]}
    helped = next_commands(SimpleNamespace(before=[row], spec=spec, facts=facts, folder="runs/photos-1"))
    assert next(iter(helped)) == "similis search runs/photos-1 PHOTO"


def test_a_recipe_gives_defaults_that_options_overrule(tmp_path, capsys):
    asked = ["train", "synthetic?classes=12&images=6&size=16", "--backbone", "small_conv", "--epochs", "1",
             "--size", "16", "--no-pictures", "--runs", str(tmp_path)]  # fmt: skip
    assert ended([*asked, "--recipe", "careful", "--lr", "0.003"]) == 0
    out = capsys.readouterr().out
    assert "untrained, 32 pixels" in out
    assert any(words in out for words in ("Training helped", "Training hurt", "No significant difference"))
    (spec,) = (json.loads(path.read_text()) for path in tmp_path.glob("*/spec.json"))
    assert (spec["model"]["dim"], spec["training"]["lr"]) == (None, 0.003)
    assert spec["training"]["interpolate"] == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_a_specification_file_with_changes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(VALUES))
    words = ["train", "run.yaml", "--set", "objective.margin_cos=0.2", "--epochs", "1", "--seed", "5", "--no-pictures"]
    assert ended([*words, "--protocol", "default", "--runs", "kept"]) == 0
    out = capsys.readouterr().out
    (folder,) = (tmp_path / "kept").glob("[!.]*")
    spec = json.loads((folder / "spec.json").read_text())
    assert spec["objective"]["options"] == {"margin_cos": 0.2}
    assert (spec["training"]["epochs"], spec["seed"], spec["training"]["lr"]) == (1, 5, 0.001)
    assert json.loads((folder / "result.json").read_text())["selected_on"] == "test"
    assert "report  " not in out
    assert not (folder / "report.html").exists()


@pytest.mark.slow
def test_two_processes_speak_to_one_display(photos, tmp_path, capfd):
    words = ["train", photos, *SMALL, "--no-pictures", "--batch", "6", "--set", "model.freeze_batch_norm=true"]
    assert ended([*words, "--runs", "one"]) == 0
    one = capfd.readouterr().out
    assert ended([*words, "--runs", "two", "--ranks", "2"]) == 0
    two, warned = capfd.readouterr()
    assert "Warning" not in warned
    for name in ("device      cpu, ", "training: 1 epochs", "step 1/1", "epoch 1: R@1", "images/s"):
        assert name in one
        assert name in two
    table = [text[text.index("network  ") : text.index("next")] for text in (one, two)]
    assert table[0] == table[1]


@pytest.mark.slow
def test_an_error_of_a_process_is_one_sentence_too(photos, capsys):
    words = ["train", photos, *SMALL[2:], "--backbone", "googlenet", "--weights", "none", "--batch", "6"]
    assert ended([*words, "--size", "64", "--ranks", "2", "--no-pictures"]) == 2
    error = capsys.readouterr().err
    assert "2 processes cannot share the batch statistics" in error
    assert "Traceback" not in error


def test_options_become_a_specification(photos):
    named = {"objective.loss": "triplet", "training.lr": 1e-3, "training.batch_size": 6, "model.weights": "none"}
    keys = asked_keys(named | {"model.dim": 16, "seed": None}, ("objective.margin=0.3", "seed=4"))
    spec = asked(photos, keys)
    assert (spec.objective.loss, dict(spec.objective.options), spec.seed) == ("triplet", {"margin": 0.3}, 4)
    assert (spec.model.weights, spec.model.freeze_batch_norm, spec.training.batch_size) == (None, False, 6)
    chosen = asked(photos, asked_keys({}, ("data.validation_share=0.3",)))
    assert (chosen.data.validation_share, chosen.model.weights) == (0.3, "pretrained")
    assert chosen.model.freeze_batch_norm is True


@pytest.mark.parametrize(
    ("words", "layout"),
    [
        ((), (10, 5)),
        (("training.per_class=3",), (6, 3)),
        (("training.batch_size=8",), (8, 4)),
        (("training.batch_size=7",), (7, 5)),  # no batch of seven can be made: the run says what is wrong
        (("training.batch_size=7", "training.per_class=5"), (7, 5)),  # all was asked for: as above
        (("training.sampler=mined",), (12, 5)),
        (("training.sampler=random",), (12, 5)),
    ],
)
def test_a_pair_loss_has_a_batch_that_a_few_photos_can_make(words, layout, tmp_path):
    """48 photos of 8 classes: 4 classes test, 2 validate, and 12 photos of 2 classes are left."""
    write(tmp_path, {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(8) for n in range(6)})
    spec = asked(str(tmp_path), asked_keys({"objective.loss": "triplet"}, words))
    assert (spec.training.batch_size, spec.training.per_class) == layout


@pytest.mark.slow
def test_interrupted_it_says_how_to_go_on_and_goes_on(tmp_path):
    """A real Ctrl-C to a real process; the second call ends with what an undisturbed one would say."""
    # a job that a script started in the background ignores Ctrl-C, and so would its children
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    words = [sys.executable, "-c", f"{heed}; from similis.cli import main; main()", "train",
             "synthetic?classes=12&images=8&size=16", *SMALL[:-1], "12", "--no-pictures", "--batch", "8",
             "--set", "training.checkpoint_steps=1"]  # fmt: skip
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 200
    while time.monotonic() < until and not list(tmp_path.glob("runs/*/checkpoint-select.safetensors")):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "the same command continues" in out
    again = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "continued after step" in again.stdout
