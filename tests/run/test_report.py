"""The report of a run: its numbers are those of the result, and it is drawn again from the run folder alone."""

import json
import re
from collections import Counter

import pytest
import torch

from similis.run.report import contents
from similis.run.report.contents import Answers, Named, choose_photos, collect, confused_pairs, count_similarities
from similis.run.result import read_result
from similis.training.folder import RunFolder
from similis.values import UserError
from tests.run.small import ran

NAMED = Named.of({"row": str(row), "path": f"{row}.png", "class_name": "abc"[row // 2]} for row in range(6))


def answers(right, neighbors):
    near = torch.tensor(neighbors)
    alike = torch.linspace(0.9, 0.5, near.shape[1]).repeat(len(near), 1)
    return {"ids": torch.arange(len(near)), "recall@1": torch.tensor(right), "neighbors": near, "similarity": alike}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished run with its data."""
    return ran(tmp_path_factory.mktemp("runs"))


def data_of(page):
    text = page.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1]), text


def test_every_number_is_that_of_the_result(done):
    data, text = data_of(done.report())
    best = max((row for row in done.before if "head" not in row), key=lambda row: row["recall@1"])
    assert f"{100 * done.test['recall@1']:.1f} %" in text
    assert f"fixed {best['fixed']:,}</button>" in text
    assert f"broke {best['broke']:,}</button>" in text
    kept = {side: [line[0] for line in data[f"answers {side}"] if line] for side in ("before", "after")}
    changes = Counter(zip(kept["before"], kept["after"], strict=True))
    assert (changes[0, 1], changes[1, 0]) == (best["fixed"], best["broke"])
    assert sum(kept["after"]) / len(kept["after"]) == pytest.approx(done.test["recall@1"])
    assert sum(kept["before"]) / len(kept["before"]) == pytest.approx(best["recall@1"])
    rates = [sum(column) for column in zip(*data["rates"], strict=True)][1:]
    assert rates == [len(kept["after"]), sum(kept["before"]), sum(kept["after"])]
    pairs = len(data["photos"]) * (len(data["photos"]) - 1) // 2
    assert all(sum(each["same"]) + sum(each["different"]) == pairs for each in data["similarities"].values())
    points = json.loads((done.folder / "report-points.json").read_text())
    assert {side: points[side] for side in ("before", "after")} == data["map"]


def test_it_is_drawn_again_without_photos_or_network(done):
    with_photos = done.report()
    data, text = data_of(with_photos)
    assert data["picture"].startswith("data:image/webp;base64,")
    again, bare = data_of(read_result(RunFolder(done.folder)).report(photos=False))
    assert again["picture"] is None
    assert "data:image/webp" not in bare
    assert again["map"] == data["map"]
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", text)


def test_without_a_test_split_there_is_nothing_to_report(tmp_path):
    with pytest.raises(UserError, match="train with held-out classes"):
        ran(tmp_path, evaluation__test=False).report()


def test_confused_pairs_count_both_directions_and_show_an_example():
    after = Answers.of(answers([0, 1, 0, 0, 1, 0], [[2, 1], [0, 2], [0, 3], [1, 2], [5, 0], [0, 4]]))
    before = Answers.of(answers([1, 1, 1, 1, 1, 0], [[1, 2], [0, 2], [3, 0], [2, 1], [5, 0], [2, 4]]))
    pairs = confused_pairs({"before": before, "after": after}, NAMED)
    assert pairs == [
        {"classes": [0, 1], "photos": [0, 2], "query": 0, "before": 0, "after": 3},
        {"classes": [0, 2], "photos": [0, 5], "query": 5, "before": 0, "after": 1},
    ]


def test_a_large_set_is_sampled_with_its_neighbours(monkeypatch):
    monkeypatch.setattr(contents, "MOST", 4)
    found = answers([1.0] * 6, [[1], [0], [3], [2], [5], [4]])
    rows = choose_photos({"after": Answers.of(found)}, [], NAMED)
    assert len(rows) == 4
    assert all(row ^ 1 in rows for row in rows)  # each with its neighbour
    embeddings = {"vectors": torch.eye(6), "labels": torch.arange(6) // 2, "ids": torch.arange(6)}
    data = collect(embeddings, {"after": found}, NAMED)
    assert (len(data["photos"]), data["total"]) == (4, 6)
    outside = answers([1.0] * 6, [[1, 5]] * 6)
    shown = contents.number_answers(Answers.of(outside), {0: 0, 1: 1}, NAMED)
    assert shown[0][1] == [1, -3]  # the fifth photo is of class 2 and not in the file


def test_similarities_are_counted_by_class():
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    found = count_similarities(vectors, torch.tensor([0, 0, 1, 1]))
    assert (found["same"][199], found["same"][100], sum(found["same"])) == (1, 1, 2)
    assert (found["different"][0], found["different"][100], sum(found["different"])) == (2, 2, 4)
