"""The command line as a user meets it: exit codes, messages, and how fast help appears."""

import json
import subprocess
import sys

import pytest
import yaml

from similis import __version__
from similis.cli import HELP as GROUPS
from similis.cli import TRAIN_HELP, VERBS, app, function_at, main
from similis.figures.formula import formula_of, to_text
from similis.registry import losses, miners
from similis.run.spec import parse_spec

HELP = """
import sys
sys.argv = ["similis", "--help"]
from similis.cli import main
try:
    main()
except SystemExit as end:
    assert end.code == 0, end.code
"""


def ended(words: list[str]) -> int:
    """The exit code of a command line run in this process."""
    with pytest.raises(SystemExit) as end:
        main(words)
    return int(end.value.code or 0)


def imported_by(code: str) -> set[str]:
    """What a fresh process has imported when a code ends."""
    told = f"{code}\nimport sys\nprint(*sys.modules)"
    return set(subprocess.check_output([sys.executable, "-c", told], text=True).splitlines()[-1].split())


def test_help_imports_its_libraries_and_little_more():
    more = imported_by(HELP) - imported_by("import typer, rich.console, rich.table")
    libraries = {name.partition(".")[0] for name in more} - sys.stdlib_module_names
    assert libraries <= {"similis", "typer", "rich"}
    assert "similis.cli.train" in more
    assert len(more) < 100  # 0.1 s


def test_help_is_in_groups_of_whole_lines(capsys):
    assert ended(["--help"]) == 0
    out = capsys.readouterr().out
    told = {verb: line for lines in GROUPS.values() for verb, line in lines.items()}
    assert set(told) == {words.split()[0] for words in VERBS}
    assert all(line in out and len(line) <= 50 for line in told.values())
    assert [title for title in GROUPS if f"\n{title}:\n" in out] == list(GROUPS)
    assert ended(["train", "--help"]) == 0
    out = capsys.readouterr().out
    assert [title for title in TRAIN_HELP if f"\n{title}:\n" in out] == list(TRAIN_HELP)
    assert all(out.count(f" --{word} ") == 1 for word in ("loss", "root", "runs", "device", "workers"))


def test_version(capsys):
    assert ended(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


def test_other_errors_on_purpose_end_with_code_1(capsys, monkeypatch):
    """A missing extra is no wrong argument; it is still one sentence."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert ended(["losses", "draw", "triplet"]) == 1
    assert "'.[plots]'" in capsys.readouterr().err


def test_a_known_first_word_imports_that_verb_only():
    names = [command.name for command in app("search").registered_commands]
    assert names == ["search"]
    assert not app("search").registered_groups


@pytest.mark.parametrize("place", VERBS.values())
def test_every_verb_is_documented_and_takes_keywords_only(place):
    import inspect

    function = function_at(place)
    assert function.__doc__
    assert all(p.kind is p.KEYWORD_ONLY for p in inspect.signature(function).parameters.values())


def test_losses_lists_every_loss_by_family(capsys):
    assert ended(["losses"]) == 0
    out = capsys.readouterr().out
    assert all(f" {entry.name} " in out for entry in losses)
    families = [line.split(" (")[0] for line in out.splitlines() if line.rstrip().endswith(")") and " (" in line[:20]]
    assert families == [f for f in ("pair", "triplet", "proxy", "classification") if any(e.family == f for e in losses)]
    row = next(line for line in out.splitlines() if " proxy_anchor " in line)
    assert row.split() == ["proxy_anchor", "proxy", "cosine", "unit", "proxies", "2020"]


def test_tables_fit_the_width_that_columns_names(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert ended(["losses"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_show_says_what_none_means_and_whether_a_loss_mines(capsys):
    assert ended(["losses", "show", "triplet"]) == 0
    out = capsys.readouterr().out
    assert "margin: None for 0.1 (cosine, euclid) or 0.2 (euclid2)" in out
    assert "uses all triplets unless you name a miner" in out
    assert ended(["losses", "show", "multi_similarity"]) == 0
    assert "mines by itself (mined=True)" in capsys.readouterr().out


@pytest.mark.parametrize("entry", list(losses), ids=lambda entry: entry.name)
def test_show_tells_everything_the_registry_knows(entry, capsys):
    assert ended(["losses", "show", entry.name]) == 0
    out = capsys.readouterr().out
    flat = " ".join(out.split())
    for text in [entry.summary, entry.paper, entry.network, entry.weight, entry.geometry, entry.cost.time]:
        assert " ".join(text.split()) in flat
    for key, value in entry.options.items():
        assert f"{key}={value!r}" in flat
    assert all(form in flat for form in entry.forms)
    assert all(preset in flat and p.source in flat for preset, p in entry.presets.items())
    assert all(argument in flat for argument in entry.learns)
    assert to_text(formula_of(entry.function)).split()[-1] in flat
    assert not set("\\÷⟦⟧") & set(flat), "commands of TeX"
    assert flat.count("(") == flat.count(")")


def test_draw_writes_a_picture_of_the_form(tmp_path, capsys):
    file = tmp_path / "new" / "forces.png"
    assert ended(["losses", "draw", "triplet", "--form", "euclid", "-o", str(file)]) == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.strip() == str(file)


def test_miners_lists_every_miner(capsys):
    assert ended(["losses", "--miners"]) == 0
    out = capsys.readouterr().out
    assert f"miners ({len(list(miners))})" in out
    assert all(miner.name in out for miner in miners)


def test_train_prints_a_specification_to_begin_with(capsys):
    assert ended(["train", "--template", "yaml"]) == 0
    assert parse_spec(yaml.safe_load(capsys.readouterr().out)).data.source == "photos/"
    assert ended(["train", "--template", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "RunSpec"
