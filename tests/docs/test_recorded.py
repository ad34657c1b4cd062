"""No decimal number stands on README or below ``results/`` without a record.

It is marked in ``numbers.yaml`` (``test_marks``), lies in a table row that the records give, is computed here from the
records of a study, or is a condition that is listed here: a version, an option, a bound. A row of a
record that the page lacks fails too.
"""

import importlib
import re
import statistics
from collections.abc import Callable, Iterable, Iterator
from itertools import product

import pytest

from benchmarks import classification, closed_forms, fine_tuning, frozen_features, thesis_heads, tuning
from tests.docs.blocks import ROOT
from tests.docs.records import RESULTS, figures, interval
from tests.docs.test_marks import LISTED, NUMBER

DECIMAL = re.compile(r"\d+\.\d+(?:\.\d+)?")
PAGES = {"README.md": ROOT / "README.md"} | {
    str(path.relative_to(RESULTS)): path for path in sorted(RESULTS.rglob("*.md"))
}


def rows_of(benchmark: str, record: str = "") -> Iterable[str]:
    """What a benchmark makes of its record, whose name is its own unless it is given."""
    page_rows = importlib.import_module(f"benchmarks.{benchmark}").page_rows
    return page_rows(figures(record or f"{benchmark.replace('_', '-')}.json"))


def fine_tuning_rows() -> Iterator[str]:
    trained = figures("fine-tuning.json")
    yield from (*fine_tuning.untouched_rows(trained), *(fine_tuning.page_row(*each) for each in trained.items()))
    for each in figures("classification.json").items():
        yield from classification.page_rows(*each)
    for name, row in figures("two-views.json").items():
        cells = interval(row["recall@1"]), interval(row["gain recall@1"], "+"), interval(row["map@r"])
        seeds = ", ".join(f"{100 * each:.1f}" for each in row["recall@1 of each seed"])
        yield f"| {name} | {' | '.join(cells)} | {seeds} |"


def stores_rows() -> Iterator[str]:
    for name, row in figures("stores.json").items():
        counts = (row["rows"], row["kills"], row["rows found"], row["distinct ids"], row["agreeing queries"])
        yield f"| {name} | {' | '.join(f'{each:,}' for each in counts)} |"


def thesis_rows() -> Iterator[str]:
    trained = [figures("fine-tuning.json")[f"cars196 whole network {seed}"] for seed in range(3)]
    seeds = ", ".join(f"{100 * each['recall@1']:.1f}" for each in trained)
    yield f"| R@1 | 86.21 | {seeds} |"  # the first is printed in Table 9
    yield f"| before training | not printed | {100 * trained[0]['untouched recall@1 160']:.1f} |"
    for path in thesis_heads.finished_folders():
        yield from thesis_heads.page_rows(thesis_heads.table_figures(path))
        yield from closed_forms.page_rows(figures("closed-forms.json")[path.name.replace("-", " ")])


ROWS: dict[str, Callable[[], Iterable[str]]] = {
    "distributed.md": lambda: (
        *("| " + " | ".join(row) + " |" for row in figures("distributed.json")), *rows_of("engine"), *rows_of("step"),
    ),
    "fine-tuning.md": fine_tuning_rows,
    "millions.md": lambda: (*rows_of("millions"), *stores_rows()),
    "second-day.md": lambda: rows_of("upgrades", "second-day.json"),
    "two-sides.md": lambda: (*rows_of("two_sides"), *rows_of("text_pairs"), *rows_of("names_to_drawings")),
    "frozen-features/index.md": lambda: (
        row for path in thesis_heads.finished_folders(frozen_features.FOLDER) for row in frozen_features.page_rows(path)
    ),
    "losses.md": lambda: rows_of("loss_page", "losses.json"),
    "tables.md": lambda: rows_of("metric", "tables.json"),
    "thesis/index.md": thesis_rows,
    "tuning/index.md": lambda: tuning.page_rows(tuning.measure(tuning.FOLDER)),
}  # fmt: skip


def advised_numbers() -> Iterator[str]:
    """Advice repeats what its pages say; ``test_marks`` looks there."""
    for page in ("fine-tuning.md", "frozen-features/index.md", "thesis/index.md", "tuning/index.md"):
        yield from DECIMAL.findall(PAGES[page].read_text(encoding="utf-8"))
    yield from mean_gains()


def mean_gains() -> Iterator[str]:
    """Mean gain of three seeds on cars and on groceries, over the network at 160 and at 224 pixels."""
    seeds = figures("fine-tuning.json")
    for data, size in product(("cars196", "grocery"), (160, 224)):
        gains = [seeds[f"{data} whole network {seed}"][f"gain recall@1 {size}"][0] for seed in range(3)]
        yield f"{100 * statistics.fmean(gains):.1f}"


NUMBERS: dict[str, Callable[[], Iterable[str]]] = {
    "README.md": lambda: list(mean_gains())[:1],
    "fine-tuning.md": mean_gains,
    "index.md": advised_numbers,
    "which-loss-first.md": advised_numbers,
}
CONDITIONS = {
    "second-day.md": ["1.7"],  # test_sentences_of_the_second_day
    # test_the_prediction_of_ten_million; the last two are an earlier prediction, whose build is no longer on the page
    "millions.md": ["0.92", "1.02", "2.6", "0.8"],
    "two-sides.md": ["6.2"],  # version of the peer
    "README.md": ["3.11", "2.9.0", "2.0"],  # Python, version of the peer, licence
    "distributed.md": ["2.9.0", "3.3.0", "1.10", "1.03", "1.05"],  # versions of the peer and of open_clip, targets
    # decay of rates by layer, a row of thesis/index.md, test_sentences_of_the_page_of_fine_tuning
    "fine-tuning.md": ["0.8", "54.8", "4.6", "5.0", "0.5", "1.3"],
    # a row, or test_sentences_about_cars; the last two test_sentences_about_both_cells_of_frozen_features
    "frozen-features/index.md": ["1.9", "1.8", "0.1", "3.9", "3.6", "0.03", "0.011", "52.2", "8.1", "0.4", "1.4", "3.0",
                                 "1.3", "2.3", "2.5", "1.5"],
    "index.md": ["9.26"],  # withdrawn
    # version of the peer, margin, two bounds, test_the_page_of_losses_names_what_is_slower_or_larger
    "losses.md": ["2.9.0", "0.1", "1.6", "2.4", "1.7", "1.1"],
    "tables.md": ["0.7.0", "1.9.1", "1.7.2", "0.001"],  # versions, rounded corner of LMNN
    # test_the_page_of_the_thesis_says_how_much_repetitions_varied, test_whitening_is_ahead_of_the_best_head
    "thesis/index.md": ["1.0", "3.3", "6.8", "3.7", "0.8", "17.5", "18.2", "17.2"],
}  # fmt: skip


def rows_and_words(path) -> tuple[list[str], str]:
    """Table rows with a decimal number outside of code, and the text without tables and without marked snippets."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [line for line in lines if DECIMAL.search(plain(line))]
    words = " ".join(" ".join(line for line in text.splitlines() if not line.startswith("|")).split())
    kept = list(words)
    for snippet in LISTED.get(str(path.relative_to(ROOT)), {}):
        start = words.find(NUMBER.sub(r"\1", snippet))
        for place, found in enumerate(NUMBER.finditer(snippet)):
            first = start + found.start() - 2 * place
            kept[first : first + len(found[1])] = " " * len(found[1])
    return rows, plain("".join(kept))


def plain(text: str) -> str:
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "", text))


@pytest.mark.parametrize("name", PAGES)
def test_every_number_has_a_record(name):
    rows, words = rows_and_words(PAGES[name])
    recorded = list(ROWS[name]()) if name in ROWS else []
    known = {*CONDITIONS.get(name, []), *(NUMBERS[name]() if name in NUMBERS else ())}
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
