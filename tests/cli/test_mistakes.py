"""Every mistake ends with its exit code and a message for people: what was given, what is allowed, what to do."""

import shlex
from pathlib import Path

import pytest
import torch
import yaml

import similis
from similis.values import Embedded
from tests.cli.mistakes import COMMANDS, SMALL
from tests.cli.python_mistakes import CALLS
from tests.cli.test_main import ended
from tests.data.pictures import picture, write
from tests.run.small import ran
from tests.study.small import values

TEXTS = {
    "notes.doc": "x", "text.png": "no image", "bad.zip": "PK nope", "bad.parquet": "nope", "blank.csv": "",
    "bad.csv": "name,kind\na.png,x\n", "gone.csv": "path,class_name\nnone.png,x\n", "head.csv": "path,class_name\n",
    "plain.py": "x = 1\n", "typo.py": "def f(:\n", "raises.py": "import nothing_here\n",
    "t.csv": "a,b,kind\n" + "".join(f"{i},{i % 3},{'xy'[i % 2]}\n" for i in range(12)),
    "words.csv": "a,kind\nred,x\nblue,y\n", "gaps.csv": "a,kind\n1,x\n,y\n2,x\n3,y\n",
    "single.csv": "a,kind\n1,x\n2,x\n3,y\n", "same.csv": "a,kind\n1,x\n2,x\n3,x\n",
    "pairs.csv": "photo.png,none.png,1\n",
    "wrong.yaml": "data: {source: photos}\ntraining: {learning_rate: 1}\n", "list.yaml": "- a\n", "bad.yaml": "a: [1\n",
    "unfinished/spec.json": "{}",
}  # fmt: skip
PLANS = {
    "plan": {}, "loss": {"contestants": ["triplet", "proxy_anchr"]}, "key": {"repetition": 3},
    "unfair": {"contestants": ["triplet", {"loss": "margin", "model": {"dim": 4}}]},
    "twice": {"contestants": ["triplet", "triplet"]}, "against": {"against": "nobody"},
    "option": {"contestants": ["triplet", {"loss": "margin", "options": {"margn": 1}}]},
    "miner": {"contestants": ["triplet", {"loss": "margin", "miner": "batch_hrd"}]},
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with good and bad data of every kind, and a finished run."""
    root = tmp_path_factory.mktemp("mistakes")
    photos = {f"photos/kind{c}/{n}.png": picture(10 * c + n) for c in range(8) for n in range(4)}
    few = {f"broken/k{c}/{n}.png": picture(10 * c + n) for c in range(4) for n in range(4)} | {
        "broken/k0/bad.png": b"x"
    }
    other = {f"one/only/{n}.png": picture(n) for n in range(8)} | {f"flat/{n}.png": picture(n) for n in range(8)}
    singles = {f"singles/k{c}/0.png": picture(c) for c in range(8)} | {"photo.png": picture(5)}
    write(root, photos | few | other | singles | {name: text.encode() for name, text in TEXTS.items()})
    for folder in ("empty", "hollow/a", "hollow/b"):
        (root / folder).mkdir(parents=True)
    for name, changes in PLANS.items():
        (root / f"{name}.yaml").write_text(yaml.safe_dump(values(**changes)))
    source = str(root / "photos")
    run = ran(root / "runs", data__source=source, training__batch_size=4, training__epochs=1)
    similis.pretrained("small_conv", weights=None, size=16, device="cpu").save(root / "model")
    return root, str(run.folder)


def test_the_table_is_long_enough_and_has_no_row_twice():
    assert len({row.command for row in COMMANDS}) == len(COMMANDS)
    assert len(COMMANDS) + len(CALLS) >= 150


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.command)
def test_a_mistake_on_the_command_line(row, place, monkeypatch, capsys):
    root, run = place
    monkeypatch.chdir(root)
    code = ended([run if word == "RUN" else word for word in shlex.split(row.command)])
    printed = capsys.readouterr()
    said = " ".join((printed.err or printed.out).split())
    assert code == row.code, said
    assert "Traceback" not in printed.out + printed.err
    for part in (row.given, row.allowed, row.remedy):
        assert part and part in said, said  # noqa: PT018


@pytest.mark.parametrize("row", CALLS, ids=lambda row: row.command)
def test_a_mistake_in_python(row, place, monkeypatch):
    monkeypatch.chdir(place[0])
    names = {"similis": similis, "torch": torch, "Embedded": Embedded, "run": place[1]}
    names |= {"x": torch.eye(6, 8), "y": torch.tensor([0, 0, 1, 1, 2, 2]), "words": list("aabbcc")}
    with pytest.raises(similis.SimilisError) as caught:
        eval(row.command, names)
    said = str(caught.value)
    assert "\n" not in said
    for part in (row.given, row.allowed, row.remedy):
        assert part and part in said, said  # noqa: PT018


def test_a_failed_command_leaves_no_run_behind(place, monkeypatch, capsys):
    monkeypatch.chdir(place[0])
    assert ended(["train", "photos", *SMALL.split(), "--set", "objective.options.margn=1", "--runs", "fresh"]) == 2
    assert "margin_cos" in capsys.readouterr().err
    assert not Path("fresh").exists() or not list(Path("fresh").iterdir())


def test_search_works_from_another_directory_and_says_what_to_do_when_the_images_are_gone(
    place, tmp_path, monkeypatch, capsys
):
    root, run = place
    monkeypatch.chdir(tmp_path)
    query = str(root / "photo.png")
    assert ended(["search", run, query]) == 0
    (root / "photos").rename(root / "moved")
    try:
        assert ended(["search", run, query]) == 1
    finally:
        (root / "moved").rename(root / "photos")
    said = capsys.readouterr().err
    assert f"there is no folder or file {str(root / 'photos')!r}" in said
    assert "say where with --gallery" in said
