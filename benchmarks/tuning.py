"""How much of a comparison is tuning? ``python -m benchmarks.tuning [--json results/tuning.json]``.

From the committed records of ``results/tuning``: recall of every loss, where its variance comes from, how often two
losses change places from one repetition to the next, and how many repetitions a claim of one point needs. Draws
``results/tuning/recall.png``.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.rounds import arguments, write_json
from similis.figures.canvas import COLOURS, new_figure, save_figure
from similis.registry import losses
from similis.study.report.judged_table import JudgedTable, judge_table
from similis.study.report.page import fair_tables
from similis.study.report.record import deviation_values, round_values, table_figures
from similis.study.statistics.power import planned_repetitions
from similis.study.statistics.variance_split import pool_splits, variance_split
from similis.study.tournament_folder import TournamentFolder

FOLDER = Path(__file__).parent.parent / "results" / "tuning"
SOURCES = ("tuning", "seed", "classes")


def judge(folder: Path) -> JudgedTable:
    """The only table of a folder."""
    kept = TournamentFolder(folder)
    (table,) = fair_tables(kept.plan(), kept.records.all("final"))
    return judge_table(kept.plan(), table, kept.records.all("floor"))


def measure(folder: Path) -> dict[str, Any]:
    """All numbers of the page."""
    judged = judge(folder)
    whole, told = judged.whole, table_figures(judged)
    splits = variance_split(whole.names, whole.runs, whole.scores.sizes)
    median = pool_splits(splits)
    kept = Counter(
        each["contestant"]
        for each in TournamentFolder(folder).records.all("search")
        if each["chosen"].endswith("preset") and each["repetition"] in whole.repetitions
    )
    rows = {
        split.name: {
            **told["contestants"][split.name],
            **{key: deviation_values(getattr(split, key)) for key in SOURCES},
            "family": losses.get(split.name).family,
            "kept preset": kept[split.name],
            "runs": np.einsum("k,krn->rn", whole.scores.weights, whole.runs[number]).tolist(),
            "trained": split.name in judged.trained.names,
        }
        for number, split in enumerate(splits)
    }
    found = {
        "losses": dict(sorted(rows.items(), key=lambda row: -row[1]["mean"])),
        "floors": {name: each["mean"] for name, each in told["floors"].items()},
        "median": median,
        "repetitions": len(whole.repetitions),
        "repetitions for a point": {key: planned_repetitions(1.0, float(median[key] or 0), losses=2, pairs=1)
                                    for key in ("seed", "run")},
        "p if only seeds varied": combined_p(rows),
        "changed places": changed_places(judged),
        "verdicts": {
            target: dict(Counter(v["verdict"] for v in told["verdicts"] if v["target"] == target))
            for target in ("these test classes", "unseen classes")
        },
        "decided": [
            [v["first"], v["verdict"], v["second"], v["difference"], v["low"], v["high"]]
            for v in told["verdicts"]
            if v["target"] == "unseen classes" and v["verdict"] != "undecided"
        ],
        "detectable": {
            target: min(v["detectable"] for v in told["verdicts"] if v["target"] == target)
            for target in ("these test classes", "unseen classes")
        },
    }  # fmt: skip
    return dict(round_values(found))


def combined_p(rows: dict[str, Any]) -> list[float]:
    """F tests of all losses against no variance of tuning, combined by Fisher; again without the two least stable."""
    values = []
    for row in rows.values():
        runs = np.array(row["runs"])
        repetitions, n = runs.shape
        ratio = n * runs.mean(axis=1).var(ddof=1) / runs.var(axis=1, ddof=1).mean()
        values.append((row["tuning"][0], float(stats.f.sf(ratio, repetitions - 1, repetitions * (n - 1)))))
    steady = sorted(values)[:-2]
    return [float(stats.combine_pvalues([p for _, p in group]).pvalue) for group in (values, steady)]


def changed_places(judged: JudgedTable) -> dict[str, int]:
    """Pairs of losses that trained, and those whose order is not the same in all repetitions."""
    recall = judged.trained.scores.per_repetition
    pairs = list(combinations(range(len(recall)), 2))
    return {
        "pairs": len(pairs),
        "changed": sum(len(set(np.sign(recall[one] - recall[other]))) > 1 for one, other in pairs),
    }


def page_rows(found: dict[str, Any]) -> list[str]:
    """Losses by recall, the medians, then the floors."""
    rows = []
    for name, row in found["losses"].items():
        spread = [f"{row[key][0]:.1f} ({row[key][1]:.1f} to {row[key][2]:.1f})" for key in SOURCES]
        recall = f"{100 * row['mean']:.1f} ± {100 * row['these classes']:.1f}"
        kept = f"{row['kept preset']} of {found['repetitions']}"
        rows.append(f"| {name} | {row['family']} | {recall} | {' | '.join(spread)} | {kept} |")
    rows.append(f"| median |  |  | {' | '.join(format(found['median'][key], '.1f') for key in SOURCES)} |  |")
    return rows + [f"| floor: {name} |  | {100 * mean:.1f} |  |  |  |  |" for name, mean in found["floors"].items()]


def verdict_rows(found: dict[str, Any]) -> list[str]:
    """Decided pairs, the largest difference first."""
    ordered = sorted(found["decided"], key=lambda each: -abs(each[3]))
    return [
        f"| {a} | {verdict} | {b} | {d:+.1f} ({low:+.1f} to {high:+.1f}) |" for a, verdict, b, d, low, high in ordered
    ]


def draw(found: dict[str, Any], path: Path) -> None:
    """Every run of every loss: one column a loss, a line for the runs of one search."""
    figure = new_figure(9.0, 4.4)
    panel = figure.subplots()
    for place, row in enumerate(found["losses"].values()):
        for number, runs in enumerate(row["runs"]):
            x = place + 0.1 * (number - (len(row["runs"]) - 1) / 2)
            panel.plot(
                [x] * len(runs), [100 * each for each in runs], "o-", color=COLOURS[0], markersize=3, linewidth=1
            )
        panel.plot([place - 0.4, place + 0.4], [100 * row["mean"]] * 2, color=COLOURS[1], linewidth=1)
    for (name, mean), style in zip(found["floors"].items(), ("--", ":"), strict=False):
        panel.axhline(100 * mean, color="0.4", linestyle=style, linewidth=1, label=f"floor: {name}")
    panel.set_xticks(range(len(found["losses"])), found["losses"], rotation=25, ha="right", fontsize=8)
    panel.set(ylabel="R@1 on unseen classes, %", title="each line: two seeds with the settings of one search")
    panel.legend(fontsize=7)
    figure.tight_layout()
    save_figure(figure, path)


def main() -> None:
    """Print the rows, draw, and write the numbers."""
    asked = arguments(__doc__ or "", [])
    found = measure(FOLDER)
    print("\n".join(page_rows(found) + verdict_rows(found)))
    print(json.dumps({key: each for key, each in found.items() if key != "losses"}, indent=1))
    draw(found, FOLDER / "recall.png")
    write_json(asked.json, "python -m benchmarks.tuning", found)


if __name__ == "__main__":
    main()
