"""``similis search``: the nearest images of a finished run, with the embeddings of the gallery kept."""

import re

import pytest
from PIL import Image

from similis.data.open_data import open_data
from similis.model.finished import finished
from similis.model.index_folder import save_index
from similis.model.load import load
from similis.retrieval.index import build_index
from similis.values import UserError
from tests.cli.test_main import ended
from tests.data.pictures import picture, write
from tests.run.small import ran


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished run over a folder of pictures, in which kinds are told by nothing but their own bytes."""
    root = tmp_path_factory.mktemp("search")
    files = {f"kind{c}/{n}.png": picture(10 * c + n) for c in range(6) for n in range(4)}
    write(root / "photos", files)
    return ran(root / "runs", data__source=str(root / "photos"), training__batch_size=4, training__epochs=1)


def test_search_prints_the_nearest_and_writes_the_sheet(done, tmp_path, capsys):
    query = tmp_path / "query.png"
    query.write_bytes(picture(999))
    sheet = tmp_path / "new" / "sheet.png"
    assert ended(["search", str(done.folder), str(query), "-k", "5", "--sheet", str(sheet)]) == 0
    rows = re.findall(r"^ ?(\d+) +(-?[\d.]+) +(kind\d) +(kind\d/\d.png)", capsys.readouterr().out, re.M)
    assert [rank for rank, *_ in rows] == ["1", "2", "3", "4", "5"]
    alike = [float(value) for _, value, *_ in rows]
    assert alike == sorted(alike, reverse=True)
    assert all(path.startswith(kind) for _, _, kind, path in rows)
    assert sheet.read_bytes().startswith(b"\x89PNG")


def test_a_thousand_answers_are_listed_and_the_sheet_shows_the_first(done, tmp_path, capsys):
    query, sheet = tmp_path / "query.png", tmp_path / "sheet.png"
    query.write_bytes(picture(999))
    assert ended(["search", str(done.folder), str(query), "-k", "1000", "--sheet", str(sheet)]) == 0
    out = capsys.readouterr().out
    assert len(re.findall(r"kind\d/\d.png", out)) == 24
    assert "sheet.png (16 of 24 shown)" in out
    with Image.open(sheet) as shown:
        assert shown.width < 2400


def test_a_sheet_has_the_format_that_its_name_ends_with(done, tmp_path):
    query = tmp_path / "query.png"
    query.write_bytes(picture(999))
    assert ended(["search", str(done.folder), str(query), "--sheet", str(tmp_path / "sheet.svg")]) == 0
    assert b"<svg" in (tmp_path / "sheet.svg").read_bytes()


def test_the_gallery_is_embedded_once_for_each_set_of_images(done, tmp_path):
    query = tmp_path / "query.png"
    query.write_bytes(picture(999))
    asked = ["search", str(done.folder), str(query), "--sheet", str(tmp_path / "sheet.png")]
    assert ended(asked) == 0
    (kept,) = (done.folder / "galleries").iterdir()
    stamp = kept.stat().st_mtime_ns
    assert ended(asked) == 0
    assert kept.stat().st_mtime_ns == stamp
    other = write(tmp_path / "other", {"a/1.png": picture(1), "b/2.png": picture(2)})
    assert ended([*asked, "--gallery", str(other)]) == 0
    assert len(list((done.folder / "galleries").iterdir())) == 2


def test_an_index_of_the_model_is_searched_as_its_gallery_is(done, tmp_path, capsys):
    model, query = load(done.folder), tmp_path / "query.png"
    query.write_bytes(picture(999))
    model.add(open_data(done.spec.data.source))
    held = model.gallery.contents()
    ids, labels = [each.id for each in held.entries], [each.label for each in held.entries]
    index = build_index(held.vectors, ids, labels, model_hash=model.model_hash)
    exact = [(hit.id, hit.label, pytest.approx(hit.similarity)) for hit in model.search(query, 30)]
    assert model.search(query, 30, index=index) == exact
    (hit,) = model.search([query], 1, label="kind2", index=index)[0]
    assert hit.label == "kind2"
    words = ["search", str(done.folder), str(query), "-k", "3", "--gallery", str(save_index(index, tmp_path / "index"))]
    assert ended(words) == 0
    out = capsys.readouterr().out
    assert "among 24 images" in out
    assert re.findall(r"kind\d/\d.png", out) == [each.id for each in model.search(query, 3)]
    index.model_hash = "another"
    save_index(index, tmp_path / "index")
    assert ended(words) == 2
    assert "embed and index with one model" in capsys.readouterr().err


def test_a_folder_that_is_no_finished_run_is_answered_with_what_to_do(done, tmp_path):
    assert finished(done.folder.parent).address == done.address  # a folder with a single run means that run
    for name in ("a", "b"):
        write(tmp_path / "two" / name, {"result.json": b"{}"})
    with pytest.raises(UserError, match="holds the runs a, b: name one"):
        finished(tmp_path / "two")
