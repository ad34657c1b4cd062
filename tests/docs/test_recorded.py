"""No decimal number stands on README or below ``results/`` without a record.

It carries a mark (``test_marks``), lies in a table row that the records give, is computed here from the records of a
study, or is a condition that is listed here: a version, an option, a bound. A row of a record that the page lacks fails
too.
"""

import importlib
import re
import statistics
from collections.abc import Callable, Iterator

import pyarrow.parquet
import pytest

from benchmarks import (
    classification,
    engine,
    fine_tuning,
    floors,
    known_answers,
    loss_page,
    metric,
    selection,
    step,
    thesis_heads,
    tuning,
)
from similis.study.report.judged_table import judge_folder
from similis.study.tournament_folder import TournamentFolder
from tests.docs.blocks import ROOT
from tests.docs.records import RESULTS, figures, interval
from tests.docs.test_marks import MARK

DECIMAL = re.compile(r"\d+\.\d+(?:\.\d+)?")
PAGES = {"README.md": ROOT / "README.md"} | {
    str(path.relative_to(RESULTS)): path for path in sorted(RESULTS.rglob("*.md"))
}


def fine_tuning_rows() -> Iterator[str]:
    trained = figures("fine-tuning.json")
    yield from (*fine_tuning.untouched_rows(trained), *(fine_tuning.page_row(*each) for each in trained.items()))
    for each in figures("classification.json").items():
        yield from classification.page_rows(*each)
    for name, row in figures("untouched.json").items():
        cells = interval(row["recall@1"]), interval(row["gain recall@1"], "+"), interval(row["map@r"])
        yield f"| {' | '.join(name.split())} | {row['pixels']} | {' | '.join(cells)} |"
    for name, row in figures("two-views.json").items():
        cells = interval(row["recall@1"]), interval(row["gain recall@1"], "+"), interval(row["map@r"])
        seeds = ", ".join(f"{100 * each:.1f}" for each in row["recall@1 of each seed"])
        yield f"| {name} | {' | '.join(cells)} | {seeds} |"


def tuning_rows() -> Iterator[str]:
    found = tuning.measure(tuning.FOLDER)
    yield from tuning.page_rows(found) + tuning.verdict_rows(found)


def thesis_rows() -> Iterator[str]:
    for path in thesis_heads.finished_folders():
        yield from thesis_heads.page_rows(thesis_heads.table_figures(path))


def comparison_rows() -> Iterator[str]:
    for name, each in figures("known-answers.json").items():
        for target in known_answers.TARGETS:
            yield "| " + " | ".join(map(str, known_answers.table_row(name, each, target))) + " |"


ROWS: dict[str, Callable[[], Iterator[str]]] = {
    "compare/index.md": comparison_rows,
    "distributed.md": lambda: ("| " + " | ".join(row) + " |" for row in figures("distributed.json")),
    "engine.md": lambda: engine.page_rows(figures("engine.json")),
    "fine-tuning.md": fine_tuning_rows,
    "losses.md": lambda: loss_page.page_rows(figures("losses.json")),
    "photos.md": lambda: (
        *(floors.page_row(*each) for each in figures("floors.json").items()),
        *step.page_rows(figures("step.json")),
    ),
    "selection/index.md": lambda: selection.page_rows(selection.measure()),
    "tables.md": lambda: metric.page_rows(figures("tables.json")),
    "thesis/index.md": thesis_rows,
    "tuning/index.md": tuning_rows,
}  # fmt: skip


def recall_of_proxy_anchor(path) -> list[float]:
    rows = pyarrow.parquet.read_table(path, columns=["name", "contestant", "recall@1"]).to_pylist()
    return [100 * row["recall@1"] for row in rows
            if row["name"].startswith("final") and row["contestant"].startswith("proxy_anchor")
            and "margin_cos" not in row["contestant"] and "fixed" not in row["contestant"]]  # fmt: skip


def comparison_numbers() -> Iterator[str]:
    """Verdicts, and what ProxyAnchor reached, on average, at least and at most."""
    for path in sorted((RESULTS / "compare").glob("*/records.parquet")):
        folder = TournamentFolder(path.parent)
        (judged,) = judge_folder(folder)
        for verdict in folder.looks.verdicts(judged.plan, judged.whole.scores):
            yield from (f"{abs(value):.2f}" for value in (verdict.difference, verdict.low, verdict.high))
        found = recall_of_proxy_anchor(path)
        yield from (f"{value:.1f}" for value in (statistics.fmean(found), min(found), max(found)))
    yield from ("1.99", "1.03", "5.02")  # test_searches_of_two_comparisons_against_the_preset
    yield from withdrawn_numbers()


def withdrawn_numbers() -> Iterator[str]:
    for name in ("omniglot-tournament", "thesis-loss"):
        yield f"{statistics.fmean(recall_of_proxy_anchor(RESULTS / 'withdrawn' / f'{name}.parquet')):.1f}"


def advised_numbers() -> Iterator[str]:
    """Advice repeats what its pages say; ``test_marks`` looks there."""
    for page in ("fine-tuning.md", "compare/index.md", "tuning/index.md"):
        yield from DECIMAL.findall(PAGES[page].read_text(encoding="utf-8"))


def first_screen_numbers() -> Iterator[str]:
    """R@1 before and after the run of the picture, and the mean gain of three seeds."""
    picture, seeds = figures("first-screen.json"), figures("fine-tuning.json")
    yield from (f"{100 * picture[name]:.1f}" for name in ("pretrained", "trained"))
    gains = [seeds[f"cars196 whole network {seed}"]["gain recall@1 160"][0] for seed in range(3)]
    yield f"{100 * statistics.fmean(gains):.1f}"


NUMBERS: dict[str, Callable[[], Iterator[str]]] = {
    "README.md": first_screen_numbers,
    "compare/index.md": comparison_numbers,
    "withdrawn/index.md": withdrawn_numbers,
    "which-loss-first.md": advised_numbers,
}
CONDITIONS = {
    "README.md": {
        "3.11": "Python",
        "2.9.0": "version of the peer",
        "2.0": "licence",
    },
    "compare/index.md": {"0.1": "the paper's margin", "15.1": "rate of an old search", "0.6": "interval of 2 of 40"},
    "distributed.md": {"2.9.0": "version of the peer", "3.3.0": "version of open_clip"},
    "engine.md": {"1.10": "target", "1.03": "target"},
    "fine-tuning.md": {
        "0.8": "decay of rates by layer",
        **dict.fromkeys(("4.6", "5.0", "0.5", "1.3"), "test_sentences_of_the_page_of_fine_tuning"),
    },
    "index.md": dict.fromkeys(("0.6", "3.6", "0.3", "6.9", "5.3", "2.8", "7.7"), "compare/index.md, rounded"),
    "losses.md": {"2.9.0": "version of the peer", "0.1": "margin", "1.6": "bound", "2.4": "bound"},
    "photos.md": {"1.05": "bound"},
    "tables.md": {"0.7.0": "version", "1.9.1": "version", "1.7.2": "version", "0.001": "rounded corner of LMNN"},
    "thesis/index.md": {
        **dict.fromkeys(("2.0", "1.5", "4.1"), "multiplications of a network"),
        **dict.fromkeys(("1.0", "3.3"), "test_the_page_of_the_thesis_says_how_much_repetitions_varied"),
    },
    "tuning/index.md": {"0.01": "level; test_the_record_of_tuning_is_what_its_runs_give"},
}


def rows_and_words(path) -> tuple[list[str], str]:
    """Table rows with a decimal number outside marks and code, and the text without tables."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [line for line in lines if DECIMAL.search(plain(line))]
    return rows, plain("\n".join(line for line in text.splitlines() if not line.startswith("|")))


def plain(text: str) -> str:
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "", MARK.sub("", text)))


@pytest.mark.parametrize("name", PAGES)
def test_every_number_has_a_record(name, monkeypatch):
    monkeypatch.chdir(ROOT)  # a loss in a file is named from here
    rows, words = rows_and_words(PAGES[name])
    recorded = list(ROWS[name]()) if name in ROWS else []
    known = {*CONDITIONS.get(name, {}), *(NUMBERS[name]() if name in NUMBERS else ())}
    assert [row for row in recorded if row not in PAGES[name].read_text(encoding="utf-8").splitlines()] == []
    loose = [row for row in rows if row not in recorded and {*DECIMAL.findall(plain(row))} - known]
    assert loose == [], "rows that no record gives"
    assert {*DECIMAL.findall(words)} - known == set(), "numbers in sentences without a mark or a record"


@pytest.mark.parametrize("name", CONDITIONS)
def test_every_condition_is_on_its_page(name):
    text = PAGES[name].read_text(encoding="utf-8")
    assert [number for number in CONDITIONS[name] if number not in text] == []


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py")))
def test_every_benchmark_can_be_imported(name):
    if name != "metric_peers":  # runs in an environment of its own
        importlib.import_module(f"benchmarks.{name}")
