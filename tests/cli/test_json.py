"""``--json`` of every verb: one object on standard output with the keys that the docs name, and nothing else there."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml

from similis.cli import EXIT_CODES, VERBS
from tests.cli.test_main import ended
from tests.data.pictures import picture, write
from tests.run.small import ran
from tests.study.small import values

PAGE = (Path(__file__).parents[2] / "docs" / "scripting.md").read_text(encoding="utf-8")
SMALL = "--backbone small_conv --size 16 --dim 8 --epochs 1"
COMMANDS = {
    "losses": ("losses", "losses"),
    "losses show": ("losses show triplet", "name summary formula paper defaults"),
    "losses draw": ("losses draw normface --set scale=64 -o new/forces.png", "file"),
    "metric": ("metric t.csv --label kind", "rows columns classes before after shares left_out folder"),
    "data show": ("data show photos", "name images parts columns fingerprint"),
    "data check": ("data check photos", "name images parts errors warnings findings"),
    "train": (f"train photos {SMALL}", "folder test validation before spec facts"),
    "evaluate": ("evaluate photos --model RUN", "data measured models"),
    "index": ("index vectors.npy --recall 0.5 --out new/index", "vectors dim met best kinds folder"),
    "embed": ("embed photos vectors --model RUN", "folder images dim parts embedded model_hash skipped checksum"),
    "search": ("search RUN photo.png -k 3", "query images hits sheet"),
    "verify": ("verify RUN photos --far 0.1 -o roc.png", "value low high far tar eer opis genuine impostors classes"),
    "cluster": ("cluster photos --model RUN --resolution 1 --out new/clusters", "photos new clusters alone out"),
    "export": ("export RUN bundle", "bundle images bytes model_hash threshold onnx_difference"),
    "compare": (
        f"compare 'synthetic?classes=12&images=6&size=16' --loss triplet --against nca --fixed --hours 0.02 {SMALL}",
        "sentence decided repetitions verdicts folder files",
    ),
    "tournament plan": ("tournament plan plan.yaml", "name contestants cost seconds"),
    "tournament run": ("tournament run plan.yaml --folder out", "folder files"),
    "tournament report": ("tournament report out --pack", "folder files"),
}
UNTRIED = {"data words", "doctor", "serve", "upgrade"}  # a text encoder; the others are tried by doctor/ and serving/


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with photos, a table, a plan, its tournament and a finished run."""
    root = tmp_path_factory.mktemp("json")
    write(root, {f"photos/kind{c}/{n}.png": picture(10 * c + n) for c in range(8) for n in range(4)})
    (root / "photo.png").write_bytes(picture(5))
    (root / "t.csv").write_text("a,b,kind\n" + "".join(f"{i % 5},{i % 3},{'xy'[i % 2]}\n" for i in range(12)))
    np.save(root / "vectors.npy", np.random.default_rng(0).standard_normal((200, 8), dtype=np.float32))
    plan = values(repetitions=1, search={"trials": 0, "epochs": 1})
    (root / "plan.yaml").write_text(yaml.safe_dump(plan))
    assert ended(["tournament", "run", str(root / "plan.yaml"), "--folder", str(root / "out")]) == 0
    return root, ran(root / "done", data__source=str(root / "photos"), training__epochs=1, training__batch_size=4)


def test_every_verb_is_tried():
    assert {*COMMANDS, *UNTRIED} == set(VERBS)


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_verb_prints_one_object_with_the_keys_of_the_docs(verb, place, monkeypatch, capsys):
    root, run = place
    monkeypatch.chdir(root)
    monkeypatch.setattr("similis.study.looks.LOOKS", (3,))
    command, keys = COMMANDS[verb]
    assert ended([str(run.folder) if word == "RUN" else word for word in [*shlex.split(command), "--json"]]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert set(keys.split()) <= set(found)
    assert "NaN" not in line
    words = verb.split()[-1]
    (row,) = [row for row in PAGE.splitlines() if row.startswith("| ") and re.search(rf"`({verb}|{words})`", row[:60])]
    cell = re.sub(r"\(.*?\)", "", row.split("|")[2]).partition(";")[0]  # without keys of keys, and of other forms
    assert set(re.findall(r"`([a-z_]+)`", cell)) <= set(found)


def test_values_are_those_of_the_table(place, monkeypatch, capsys):
    root, run = place
    monkeypatch.chdir(root)
    assert ended(["search", str(run.folder), "photo.png", "-k", "3", "--json"]) == 0
    printed = capsys.readouterr()
    hits = json.loads(printed.out)["hits"]
    assert [set(hit) for hit in hits] == [{"id", "label", "similarity"}] * 3
    assert all(hit["id"] in printed.err and f"{hit['similarity']:.4f}" in printed.err for hit in hits)
    assert ended(["train", "photos", *SMALL.split(), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["test"] == json.loads((Path(result["folder"]) / "result.json").read_text())["test"]


def test_a_check_that_finds_errors_prints_them_and_ends_with_its_code(tmp_path, capsys):
    write(tmp_path, {f"photos/only/{n}.png": picture(n) for n in range(4)})
    assert ended(["data", "check", str(tmp_path / "photos"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["errors"], found["findings"][0]["kind"]) == (1, "one-class")


def test_a_failure_prints_no_object(capsys):
    assert ended(["train", "nowhere", "--json"]) == 2
    printed, said = capsys.readouterr()
    assert (printed, "'nowhere'" in said) == ("", True)


def test_the_docs_and_the_help_list_the_exit_codes(capsys):
    listed = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.M)
    assert {int(code): meaning for code, meaning in listed} == EXIT_CODES
    assert ended(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(f"{code} {meaning}" in shown for code, meaning in EXIT_CODES.items())


@pytest.mark.parametrize(
    ("words", "expected"),
    [("tr", "train"), ("train --ep", "--epochs"), ("train photos --loss proxy_a", "proxy_anchor"),
     ("compare photos --loss proxy_a", "proxy_anchor"), ("compare photos --against proxy_a", "proxy_anchor"),
     ("losses show proxy_a", "proxy_anchor")],
)  # fmt: skip
def test_a_shell_completes_verbs_options_and_names_of_losses(words, expected, monkeypatch, capsys):
    for name, value in {"COMP_WORDS": f"similis {words}", "COMP_CWORD": str(len(words.split()))}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("_SIMILIS_COMPLETE", "complete_bash")
    ended([])
    assert capsys.readouterr().out.split() == [expected]
