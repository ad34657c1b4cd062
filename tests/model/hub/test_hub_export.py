"""Runs on the Hub: ``similis export --to`` and ``Model.push`` of a run, with its results on the card."""

import json
import re

import pytest
import torch
import yaml

import similis
from similis.model import hub as on_the_hub
from similis.model.bundle_files import CARD, FILES, THUMBNAILS, WEIGHTS
from similis.retrieval.intervals import mean_interval
from similis.values import DataError
from tests.cli.test_main import ended
from tests.model.hub.client import IMAGES, embed, last, push

pytest.importorskip("huggingface_hub")


def test_a_bundle_whose_upload_fails_is_kept(run, monkeypatch, capsys):
    def fail(*_, **options):
        raise DataError("cannot upload to hf://me/x (no network)")

    monkeypatch.setattr(on_the_hub, "create_repository", lambda *_, **options: "me/x")
    monkeypatch.setattr(on_the_hub, "push_bundle", fail)
    assert ended(["export", str(run.folder), "--to", "hf://me/x"]) != 0
    place = re.search(r"the bundle is kept: similis export (\S+) --to hf://me/x", capsys.readouterr().err)[1]
    assert similis.load(place, device="cpu").dim == similis.load(run.folder, device="cpu").dim


def test_an_export_that_fails_leaves_no_temporary_folder(run, monkeypatch, tmp_path):
    monkeypatch.setattr(on_the_hub, "create_repository", lambda *_, **options: "me/x")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert ended(["export", str(run.folder), "--to", "hf://me/x", "--gallery", str(tmp_path / "absent")]) != 0
    assert not list(tmp_path.glob("similis-*"))


@pytest.fixture(scope="module")
def exported(server, online, run):
    words = ["export", str(run.folder), "--to", "hf://me/run", "--licence", "My own: v2", "--json"]
    assert online(ended, words) == 0
    return last(server, "me/run")


def test_a_run_is_exported_to_the_hub_with_its_results(online, run, exported):
    assert not {THUMBNAILS, "collection.sqlite"} & set(exported)
    assert {"threshold.json", "rates.json", WEIGHTS} <= set(exported) - {".gitattributes"} <= set(FILES)
    assert json.loads(exported["gallery.json"]) == {"entries": []}
    header = yaml.safe_load(exported[CARD].decode().split("---\n")[1])
    assert (header["license"], header["license_name"]) == ("other", "my-own-v2")
    from huggingface_hub import repocard_data

    name, results = repocard_data.model_index_to_eval_results(header["model-index"])
    assert name == run.folder.name
    scores, test = run.scores(), json.loads((run.folder / "result.json").read_text())["test"]
    span = mean_interval(scores["recall@1"], scores["labels"])
    expected = [round(100 * value, 2) for value in (test["recall@1"], span.low, span.high, test["map@r"])]
    assert [each.metric_value for each in results] == expected
    assert [each.metric_type for each in results][:2] == ["recall_at_1", "recall_at_1_low"]
    assert {each.dataset_name for each in results} == {"photos"}
    vectors, images = online(embed, "hf://me/run")
    assert images == 0
    assert torch.equal(vectors, similis.load(run.folder, device="cpu").encode(IMAGES))


def test_export_keeps_the_folder_and_uploads_the_gallery_if_asked(server, online, run, tmp_path):
    out = str(tmp_path / "b")
    assert online(ended, ["export", str(run.folder), out, "--to", "hf://me/whole", "--with-gallery", "--public"]) == 0
    assert {file.name for file in (tmp_path / "b").glob("[!.]*")} == set(last(server, "me/whole")) - {".gitattributes"}
    assert not (tmp_path / "b" / CARD).read_text().startswith("---")
    assert online(embed, "hf://me/whole")[1] == 84
    assert not server.repositories["me/whole"].private


def test_a_pushed_run_has_the_same_results_on_its_card(server, online, run, exported):
    online(push, "me/direct", run.folder)
    headers = [files[CARD].decode().split("---\n")[1] for files in (exported, last(server, "me/direct"))]
    pushed, written = (yaml.safe_load(header)["model-index"][0]["results"] for header in headers)
    assert pushed == written


@pytest.mark.parametrize("words", [[], ["b", "--public"], ["b", "--with-gallery"], ["--to", "somewhere"]])
def test_export_says_which_options_go_together(run, tmp_path, monkeypatch, words, capsys):
    monkeypatch.chdir(tmp_path)
    assert ended(["export", str(run.folder), *words]) == 2
    assert "hf://owner/name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
