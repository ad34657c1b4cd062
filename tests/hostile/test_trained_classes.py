"""Classes that trained a model are never measured as unseen without a word."""

import json
import shutil

import pytest

import similis
from similis.cli import main
from similis.model.bundle import error_rates, read_rates
from tests.data.pictures import picture, write
from tests.hostile.refusals import call
from tests.run.small import ran


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Twelve classes of photos, and a run that trained on half of them."""
    root = tmp_path_factory.mktemp("trained")
    write(root / "photos", {f"kind{c:02}/{n}.png": picture(100 * c + n) for c in range(12) for n in range(6)})
    ran(root / "runs", data__source=str(root / "photos"), training__epochs=1)
    return root


@pytest.fixture(scope="module")
def trained(place):
    """Names of the classes that trained or validated."""
    model = similis.load(place / "runs", device="cpu")
    assert len(model.trained_on.classes) == 6
    assert len(model.trained_on.contents) == 36
    return model.trained_on.classes


def said(capsys, words) -> dict:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--json", "--device", "cpu"])
    assert not ended.value.code
    return json.loads(capsys.readouterr().out)


def copy_classes(place, names, target, rename=False):
    """A folder with these classes, perhaps under other names."""
    for number, name in enumerate(sorted(names)):
        shutil.copytree(place / "photos" / name, target / (f"other{number}" if rename else name))
    return target


def test_evaluate_leaves_them_out_and_says_so(place, trained, capsys):
    words = ["evaluate", str(place / "photos"), "--model", str(place / "runs")]
    found = said(capsys, words)
    assert found["trained_classes"] == 6
    assert found["measured"].startswith("36 images of 6 all classes; 6 classes that trained the model are left out")
    kept = said(capsys, [*words, "--keep-trained"])
    assert kept["measured"].startswith("72 images of 12 all classes; 6 classes that trained the model are among them")
    alone = said(capsys, [*words[:2], "--model", "small_conv", "--weights", "none", "--size", "16"])
    assert alone["trained_classes"] == 0
    both = said(capsys, [*words, "--model", "small_conv", "--weights", "none", "--size", "16"])
    assert both["trained_classes"] == 6  # and all models are measured on the same images


def test_other_names_do_not_hide_them(place, trained, tmp_path, capsys):
    unseen = {f"kind{c:02}" for c in range(12)} - trained
    folder = copy_classes(place, trained, tmp_path / "renamed", rename=True)
    for command in ("evaluate {0} --model {1}", "verify {1} {0}"):
        code, message = call(capsys, *command.format(folder, place / "runs").split())
        assert code == 1
        assert "all 6 classes of 'renamed' trained the model" in message
        assert "--keep-trained" in message
    copy_classes(place, unseen, folder)
    found = said(capsys, ["evaluate", str(folder), "--model", str(place / "runs")])
    assert (found["trained_classes"], found["models"][0]["model"]) == (6, "photos-1")


def test_the_same_names_with_new_photos_are_left_out_too(place, trained, tmp_path, capsys):
    write(tmp_path / "new", {f"kind{c:02}/{n}.png": picture(5000 + 100 * c + n) for c in range(12) for n in range(4)})
    assert said(capsys, ["evaluate", str(tmp_path / "new"), "--model", str(place / "runs")])["trained_classes"] == 6


def test_one_copy_of_a_training_photo_goes_and_its_class_stays(place, trained, tmp_path, capsys):
    unseen = sorted({f"kind{c:02}" for c in range(12)} - trained)
    folder = copy_classes(place, unseen, tmp_path / "photos")
    shutil.copy(place / "photos" / sorted(trained)[0] / "0.png", folder / unseen[0] / "copy.png")
    found = said(capsys, ["evaluate", str(folder), "--model", str(place / "runs")])
    assert found["measured"].startswith("36 images of 6 all classes")


def test_verify_chooses_no_threshold_on_them(place, trained, tmp_path, capsys):
    folder = copy_classes(place, {f"kind{c:02}" for c in range(12)}, tmp_path / "moved")
    (folder / "kind00" / "extra.png").write_bytes(picture(9999))  # other data than the run's own
    runs = shutil.copytree(place / "runs", tmp_path / "runs")  # verify keeps its threshold there
    found = said(capsys, ["verify", str(runs), str(folder), "--far", "0.1"])
    assert not set(found["classes"]) & trained
    assert "6 classes that trained the model are left out" in found["data"]
    kept = said(capsys, ["verify", str(runs), str(folder), "--far", "0.1", "--keep-trained"])
    assert set(kept["classes"]) > trained
    assert "too good" in kept["data"]
    pairs = tmp_path / "pairs.csv"
    own = sorted(trained)
    rows = [(f"{a}/0.png", f"{a}/1.png", 1) for a in own] + [(f"{own[0]}/2.png", f"{b}/2.png", 0) for b in own[1:]]
    pairs.write_text("".join(f"moved/{a},moved/{b},{same}\n" for a, b, same in rows))
    code, message = call(capsys, "verify", str(runs), str(pairs), "--far", "0.2")
    assert code == 1
    assert "trained the model" in message


def test_a_bundle_keeps_the_record_and_counts_no_rates_on_them(place, trained, tmp_path, capsys):
    only = copy_classes(place, trained, tmp_path / "only")
    made = said(capsys, ["export", str(place / "runs"), str(tmp_path / "bundle"), "--gallery", str(only)])
    assert made["threshold"] is None
    assert not (tmp_path / "bundle" / "rates.json").exists()
    assert similis.load(tmp_path / "bundle", device="cpu").trained_on.classes == trained
    made = said(capsys, ["export", str(place / "runs"), str(tmp_path / "all")])
    model = similis.load(tmp_path / "all", device="cpu")
    assert made["threshold"] is not None
    assert not set(model.chosen.classes) & trained
    words = ["export", str(place / "runs"), str(tmp_path / "kept"), "--gallery", str(only), "--keep-trained"]
    assert said(capsys, words)["threshold"] is not None
    assert "too good" in (tmp_path / "kept" / "README.md").read_text()


def test_rates_are_not_counted_on_them_after_a_threshold_of_other_photos(place, trained, tmp_path, capsys):
    write(tmp_path / "other", {f"new{c}/{n}.png": picture(7000 + 100 * c + n) for c in range(6) for n in range(6)})
    runs = shutil.copytree(place / "runs", tmp_path / "runs")
    said(capsys, ["verify", str(runs), str(tmp_path / "other"), "--far", "0.1"])
    only = copy_classes(place, trained, tmp_path / "only")
    said(capsys, ["export", str(runs), str(tmp_path / "bundle"), "--gallery", str(only)])
    assert not (tmp_path / "bundle" / "rates.json").exists()
    said(capsys, ["export", str(runs), str(tmp_path / "all")])
    held = similis.load(tmp_path / "all", device="cpu").gallery.contents()
    unseen = sorted({entry.label for entry in held.entries} - trained)
    assert read_rates(tmp_path / "all") == error_rates(held, unseen)


def test_embedded_photos_are_recognised_and_searched_without_copies(place, trained, tmp_path, capsys):
    folder = copy_classes(place, {f"kind{c:02}" for c in range(12)}, tmp_path / "photos", rename=True)
    words = ["embed", str(folder), str(tmp_path / "vectors"), "--model", str(place / "runs")]
    said(capsys, words)
    found = said(capsys, ["evaluate", str(tmp_path / "vectors"), "--model", str(place / "runs")])
    assert found["trained_classes"] == 6
    query = next(folder.glob("*/*.png"))
    words = ["search", str(place / "runs"), str(query), "-k", "3", "--gallery", str(tmp_path / "vectors")]
    assert str(query.relative_to(folder)) not in [hit["id"] for hit in said(capsys, words)["hits"]]


def test_pairs_name_the_classes_that_they_were_chosen_on(place, trained, tmp_path, capsys):
    runs = shutil.copytree(place / "runs", tmp_path / "runs")
    folder = copy_classes(place, {f"kind{c:02}" for c in range(12)}, tmp_path / "moved")
    names = sorted(path.name for path in folder.iterdir())
    rows = [(f"{a}/0.png", f"{a}/1.png", 1) for a in names]
    rows += [(f"{a}/0.png", f"{b}/1.png", 0) for a in names for b in names if a < b]
    (tmp_path / "pairs.csv").write_text("".join(f"moved/{a},moved/{b},{same}\n" for a, b, same in rows))
    found = said(capsys, ["verify", str(runs), str(tmp_path / "pairs.csv"), "--far", "0.2"])
    assert len(found["classes"]) == 6
    assert not {name.split("/")[1] for name in found["classes"]} & trained
