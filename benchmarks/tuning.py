"""How much of a comparison is tuning? ``python -m benchmarks.tuning [--json results/tuning.json]``.

From the committed records of ``results/tuning``: recall of every loss, where its variance comes from, how often one
repetition of two losses has the wrong order, and how many repetitions a claim of one point needs. Draws
``results/tuning/recall.png``.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rounds import arguments, write_json
from benchmarks.selection import mean_interval
from benchmarks.variance_split import Deviation, VarianceSplit, pool_splits, variance_split
from similis.figures.canvas import COLOURS, new_figure, save_figure
from similis.registry import losses
from similis.study.report.judged_table import judge_folder
from similis.study.report.record import round_values, table_figures
from similis.study.statistics.power import planned_repetitions
from similis.study.tournament_folder import TournamentFolder

FOLDER = Path(__file__).parent.parent / "results" / "tuning"
SELECTION = FOLDER.parent / "selection" / "validation"
SOURCES = ("tuning", "seed", "classes")


def measure(folder: Path) -> dict[str, Any]:
    """All numbers of the page."""
    tournament = TournamentFolder(folder)
    (judged,) = judge_folder(tournament)
    whole, told = judged.whole, table_figures(judged)
    splits = variance_split(whole.names, whole.runs, whole.scores.sizes)
    runs = np.einsum("k,ckrn->crn", whole.scores.weights, whole.runs)
    searches = [r for r in tournament.records.all("search") if r["repetition"] in whole.repetitions]
    kept = Counter(each["contestant"] for each in searches if each["chosen"].endswith("preset"))
    begun = {each["contestant"] for each in searches if each["preset"]}
    rows = {
        split.name: {
            **told["contestants"][split.name], **{key: deviation_values(getattr(split, key)) for key in SOURCES},
            "family": losses.get(split.name).family, "runs": runs[number].tolist(),
            "kept preset": kept[split.name] if split.name in begun else None,
        }
        for number, split in enumerate(splits)
    }  # fmt: skip
    found = {
        "losses": dict(sorted(rows.items(), key=lambda row: -row[1]["mean"])),
        "floors": {name: each["mean"] for name, each in told["floors"].items()},
        "median": pool_splits(splits), "repetitions": len(whole.repetitions),
        "trials": [min(each["trials"] for each in searches), max(each["trials"] for each in searches)],
        "repetitions for a point": repetitions_for_a_point(splits),
        "orders": count_orders(whole.scores.per_repetition), "refit": refit_gains(),
    }  # fmt: skip
    return dict(round_values(found))


def refit_gains() -> dict[str, Any]:
    """What training on all training classes gains over training without those that validate.

    The study of selection began with the searches of this one. Where both chose the same settings, a pair is its final
    run, which was trained again on all classes, and the first run of this study, which was not.
    """
    kept = {
        (r["contestant"], r["repetition"]): r for r in TournamentFolder(FOLDER).records.all("final") if not r["run"]
    }
    again = {(r["contestant"], r["repetition"]): r for r in TournamentFolder(SELECTION).records.all("final")}
    same = [each for each in sorted(again) if each in kept and again[each]["settings"] == kept[each]["settings"]]
    gains = [100 * (again[each]["test"]["recall@1"] - kept[each]["test"]["recall@1"]) for each in same]
    return {"pairs": len(gains), "gain": mean_interval(gains)}


def repetitions_for_a_point(splits: list[VarianceSplit]) -> dict[str, int]:
    """For two losses like the median one; the interval resamples losses."""
    run, seed = (np.array([getattr(split, key).value for split in splits]) for key in ("run", "seed"))
    drawn = np.random.default_rng(0).integers(0, len(run), (4000, len(run)))
    low, high = np.quantile(np.median(run[drawn], axis=1), (0.025, 0.975))
    deviations = {"seed": np.median(seed), "run": np.median(run), "low": low, "high": high}
    return {key: planned_repetitions(1.0, float(each), pairs=1) or 1000 for key, each in deviations.items()}


def deviation_values(deviation: Deviation | None) -> list[float] | None:
    """A standard deviation and its interval; None where it cannot be told."""
    return None if deviation is None else [deviation.value, deviation.low, deviation.high]


def count_orders(recall: NDArray[np.float64]) -> dict[str, float]:
    """Pairs of losses (m, R), those whose repetitions overlap, how often one repetition of each has the wrong order."""
    ordered = recall[np.argsort(-recall.mean(axis=1))]
    pairs = list(combinations(ordered, 2))
    reverse = [float((better[:, None] < worse[None, :]).mean()) for better, worse in pairs]
    return {
        "pairs": len(pairs),
        "overlap": sum(bool(better.min() < worse.max()) for better, worse in pairs),
        "reverse": float(np.mean(reverse)),
    }


def page_rows(found: dict[str, Any]) -> list[str]:
    """Losses by recall, the medians, then the floors."""
    rows = []
    for name, row in found["losses"].items():
        spread = [f"{row[key][0]:.1f} ({row[key][1]:.1f} to {row[key][2]:.1f})" for key in SOURCES]
        recall = f"{100 * row['mean']:.1f} ± {100 * row['these classes']:.1f}"
        kept = "" if row["kept preset"] is None else f"{row['kept preset']} of {found['repetitions']}"
        rows.append(f"| {name} | {row['family']} | {recall} | {' | '.join(spread)} | {kept} |")
    rows.append(f"| median |  |  | {' | '.join(format(found['median'][key], '.1f') for key in SOURCES)} |  |")
    return rows + [f"| floor: {name} |  | {100 * mean:.1f} |  |  |  |  |" for name, mean in found["floors"].items()]


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
    print("\n".join(page_rows(found)))
    print(json.dumps({key: each for key, each in found.items() if key != "losses"}, indent=1))
    draw(found, FOLDER / "recall.png")
    write_json(asked.json, "python -m benchmarks.tuning", found)


if __name__ == "__main__":
    main()
