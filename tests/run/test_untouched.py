"""Before and after: the untouched network is measured on the test images of a run, and training is judged by it."""

import pytest
import torch
from safetensors.torch import save_file

from similis.data.open_data import open_data
from similis.model.evaluation import evaluate_model, evaluated_rows
from similis.model.finished import finished
from similis.model.load import pretrained
from similis.model.model_card import results_section
from similis.retrieval.intervals import mean_interval
from similis.run.untouched import best_before, training_verdict
from similis.values import UserError
from tests.cli.test_main import ended
from tests.data.pictures import picture, write
from tests.run.small import ran


def recall_of(vectors, labels):
    """Whether the nearest other vector is of the same class, of equals the wrong one first: a plain loop."""
    found = []
    for one in range(len(labels)):
        alike = [(float(vectors[one] @ vectors[other]), labels[one] != labels[other], other)
                 for other in range(len(labels)) if other != one]  # fmt: skip
        found.append(float(not max(alike)[1]))
    return found


def test_the_untouched_network_is_measured_on_the_same_queries(tmp_path):
    result = ran(tmp_path, model__image_size=24, model__options={}, evaluation__ks=[1])
    assert [row["pixels"] for row in result.before] == [32, 24]
    kept, data = result.embeddings(), open_data(result.spec.data.source)
    files = [data.read_bytes(row) for row in kept["ids"].tolist()]
    labels = kept["labels"].tolist()
    after = recall_of(torch.nn.functional.normalize(kept["vectors"].double(), dim=1), labels)
    for row in result.before:
        model = pretrained("small_conv", weights=None, size=row["pixels"], device="cpu")
        before = recall_of(model.encode(files).double(), labels)
        assert row["recall@1"] == pytest.approx(sum(before) / len(before))
        expected = mean_interval(torch.tensor(after) - torch.tensor(before), torch.tensor(labels))
        assert row["gain"]["recall@1"] == pytest.approx(list(expected))
    assert finished(result.folder).before == result.before


def test_one_row_where_the_resolution_is_the_networks_own_and_none_where_it_is_not_wanted(tmp_path):
    assert len(ran(tmp_path, model__image_size=None).before) == 1
    assert ran(tmp_path, evaluation__untouched=False).before == ()
    assert ran(tmp_path, evaluation__test=False).before == ()


def test_runs_on_the_same_images_share_what_the_untouched_network_made_of_them(tmp_path):
    ran(tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / ".untouched").iterdir()}
    ran(tmp_path, training__lr=0.002)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / ".untouched").iterdir()} == kept
    assert len(kept) == 2


def row(low, high, pixels=224, recall=0.5):
    gain = {"recall@1": [(low + high) / 2, low, high]}
    return {"pixels": pixels, "pretrained": True, "recall@1": recall, "gain": gain}


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0.01, 0.03, "Training helped"), (-0.03, -0.01, "Training hurt"), (-0.01, 0.03, "No significant difference")],
)
def test_the_sentence_follows_from_the_interval(low, high, words):
    assert training_verdict([row(low, high)]).startswith(words)


def test_pretrained_weights_are_advised_where_there_are_some():
    assert "similis.pretrained" in training_verdict([row(-0.03, -0.01)])
    assert "similis.pretrained" not in training_verdict([row(-0.03, -0.01) | {"pretrained": False}])


def test_the_sentence_tells_a_change_of_map_at_r_that_recall_does_not_show():
    saturated = row(-0.0, 0.0)
    saturated["gain"]["map@r"] = [-0.05, -0.11, -0.01]
    assert training_verdict([saturated]).endswith("MAP@R is worse: -5.0 points (-11.0 to -1.0).")
    saturated["gain"]["map@r"] = [-0.05, -0.11, 0.01]
    assert "MAP@R" not in training_verdict([saturated])


def test_the_better_untouched_network_is_the_one_to_beat():
    weak, strong = row(0.01, 0.03, 96, 0.3), row(-0.03, -0.01, 224, 0.6)
    assert best_before([weak, strong]) is strong
    assert "hurt" in training_verdict([weak, strong])
    assert "at 224 pixels" in training_verdict([weak, strong])


def test_evaluate_prints_a_row_for_each_model(tmp_path, capsys):
    photos = write(tmp_path / "photos", {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(6) for n in range(4)})
    result = ran(tmp_path / "runs", data__source=str(photos), training__batch_size=4, training__epochs=1)
    asked = ["evaluate", str(photos), "--model", "small_conv", "--model", str(result.folder), "--weights", "none"]
    assert ended([*asked, "--size", "16", "--size", "32", "--keep-trained"]) == 0
    out = capsys.readouterr().out
    assert "24 images of 6 all classes" in out
    assert out.count("small_conv") == 2
    data = open_data(str(photos))
    model = pretrained("small_conv", weights=None, size=16, device="cpu")
    found = evaluate_model(model, data, evaluated_rows(data)[0])
    expected = recall_of(model.encode(data), data.labels.tolist())
    assert found["recall@1"] == pytest.approx(sum(expected) / 24)
    assert f"{100 * found['recall@1']:.2f}" in out
    with pytest.raises(UserError, match=r"part 'test' given; .* has all only"):
        evaluated_rows(data, "test")


def test_whitened_features_stand_beside_a_pretrained_network(tmp_path):
    network = pretrained("small_conv", weights=None, size=16).embedder.backbone
    file = tmp_path / "weights.safetensors"
    save_file({name: value.contiguous() for name, value in network.state_dict().items()}, file)
    result = ran(tmp_path, model__weights=str(file), model__options={})
    plain, *_, whitened = result.before
    assert (plain.get("head"), whitened["head"], whitened["pixels"]) == (None, "whitening", plain["pixels"])
    said = training_verdict(result.before, result.spec.model)
    assert f"Whitening alone takes seconds: R@1 {100 * whitened['recall@1']:.1f} %" in said
    assert best_before(result.before)["recall@1"] == max(row["recall@1"] for row in result.before if "head" not in row)
    assert "baseline: whitened network" in results_section(result)
    closed = ran(tmp_path, model__weights=str(file), model__options={}, model__head="whitening")
    assert all("head" not in row for row in closed.before)
    assert "Training" not in training_verdict(closed.before, closed.spec.model)
