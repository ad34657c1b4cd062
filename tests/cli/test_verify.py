"""``similis verify``: figures of a finished run, the threshold it keeps, files of pairs."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from similis.model.verification import connected_components, read_threshold
from similis.retrieval.verification import verify
from similis.training.folder import RunFolder
from similis.values import DataError, Embedded
from tests.cli.test_main import ended
from tests.data.pictures import picture, write
from tests.run.small import ran


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run over a folder of pictures."""
    root = tmp_path_factory.mktemp("verify")
    write(root / "photos", {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(8) for n in range(5)})
    return ran(root / "runs", data__source=str(root / "photos"), training__batch_size=4, training__epochs=1)


@pytest.fixture
def done(trained, tmp_path):
    """The run in a folder that the test may write to."""
    return replace(trained, folder=shutil.copytree(trained.folder, tmp_path / "runs" / trained.folder.name))


def test_verify_prints_the_table_keeps_the_threshold_and_draws(done, tmp_path, capsys):
    assert read_threshold(done.folder) is None
    figure = tmp_path / "new" / "roc.png"
    source = done.spec.data.source
    assert ended(["verify", str(done.folder), source, "--far", "0.1", "-o", str(figure)]) == 0
    out = capsys.readouterr().out
    assert figure.read_bytes().startswith(b"\x89PNG")
    test = done.embeddings()  # of the classes that the run kept for its test
    expected = verify(Embedded(test["vectors"], test["labels"], test["ids"]), far=0.1)
    kept = read_threshold(done.folder)
    assert kept.value == pytest.approx(expected.threshold[0.1].value, abs=1e-6)
    assert (kept.far, len(kept.classes)) == (0.1, 4)
    assert set(kept.classes) < {f"kind{c}" for c in range(8)}
    assert json.loads((done.folder / "threshold.json").read_text())["value"] == kept.value
    printed = re.search(r"TAR at FAR 0.1 +([\d.]+) % +([\d.]+) to ([\d.]+) %", out)
    assert float(printed[1]) == pytest.approx(100 * expected.tar[0.1].value, abs=0.06)
    assert f"4 classes, {expected.genuine} genuine and {expected.impostors} impostor pairs" in out
    openings = [record for record in RunFolder(done.folder).records() if record.get("by") == "verify"]
    assert [(record["opened"], record["images"]) for record in openings] == [("test split", 20)]
    assert "EER" in out
    assert "OPIS" in out


def test_the_data_of_the_run_are_known_by_their_contents(done, tmp_path, monkeypatch, capsys):
    """A relative path, or photos that were moved, must not bring training classes into the threshold."""
    source = Path(done.spec.data.source)
    shutil.copytree(source, tmp_path / "moved")
    monkeypatch.chdir(source.parent)
    for data in ("photos/", str(tmp_path / "moved")):
        assert ended(["verify", str(done.folder), data, "--far", "0.1"]) == 0
        assert " 4 classes, " in capsys.readouterr().out


def test_other_data_is_used_whole_and_groups_are_kept_apart(done, tmp_path, capsys):
    files = {f"{c}{n}.png": picture(9000 + 10 * c + n) for c in range(4) for n in range(4)}
    write(tmp_path, files)
    lines = ["path,class_name,group", *(f"{name},{name[0]},{name[1]}" for name in files)]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    assert ended(["verify", str(done.folder), str(tmp_path / "table.csv"), "--far", "0.1"]) == 0
    # of 24 genuine and 96 impostor pairs, those with one camera are left out: 4 x 6 impostors
    assert "4 classes, 24 genuine and 72 impostor pairs" in capsys.readouterr().out
    assert read_threshold(done.folder).classes == ("0", "1", "2", "3")


def test_a_file_of_pairs_has_the_classes_that_its_genuine_pairs_link(done, tmp_path, capsys):
    names = [f"{n}.png" for n in range(8)]
    write(tmp_path, {name: picture(9000 + n) for n, name in enumerate(names)})
    rows = [(0, 1, 1), (1, 2, 1), (3, 4, 1), (5, 6, 1), (0, 3, 0), (2, 5, 0), (4, 6, 0), (7, 0, 0)]
    text = "first,second,same\n" + "".join(f"{names[a]},{names[b]},{same}\n" for a, b, same in rows)
    (tmp_path / "pairs.csv").write_text(text)
    assert ended(["verify", str(done.folder), str(tmp_path / "pairs.csv"), "--far", "0.5"]) == 0
    assert "4 classes, 4 genuine and 4 impostor pairs" in capsys.readouterr().out
    (tmp_path / "pairs.csv").write_text(text + f"{names[0]},{names[2]},0\n")
    assert ended(["verify", str(done.folder), str(tmp_path / "pairs.csv"), "--far", "0.5"]) == 1
    assert "are stated as different" in capsys.readouterr().err


def test_a_damaged_threshold_is_noticed(done):
    (done.folder / "threshold.json").write_text('{"far": 1}')
    with pytest.raises(DataError, match="threshold"):
        read_threshold(done.folder)


def test_links_join_in_any_order():
    assert connected_components([(4, 2), (0, 1), (2, 1)], 6) == [0, 0, 0, 3, 0, 5]
