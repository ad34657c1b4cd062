"""Error and power of the verdicts: ``python -m benchmarks.verdict_rules [--only ROW] [--json FILE]``.

Simulated tournaments of 100 test classes with effects of class, loss x class, repetition and repetition x class, and
binomial queries. ``all pairs``: nine contestants, Holm over 36 pairs. ``compare``: two contestants, looks at 3, 5, 7,
10 and 15 repetitions, stopping at the first verdict. Variances over repetitions are equal, those of one contestant are
scaled (a standard deviation 4 or 10 times as large), or they are spread from half to twice. The committed record is
``results/verdict-rules.json``; with ``--json`` the power curves are drawn to ``docs/pictures/power.png``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.rounds import arguments, print_table, write_json
from similis.figures.canvas import new_figure, save_figure
from similis.figures.recall_plots import line_style
from similis.study.statistics.looks import LOOKS
from similis.study.statistics.significance import TARGETS, Target
from tests.statistics.looking import share_of_verdicts
from tests.statistics.rates import false_alarms, power, recommended
from tests.statistics.simulated import VARIANCES

TOURNAMENTS = 2000
POWER_TOURNAMENTS = 300
REPETITIONS = (3, 5, 10)
POINTS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
MARGIN = 4.0  # of the false equivalence: wide enough that fifteen repetitions can show it
ROWS = [f"{rule}, {name}" for rule in ("all pairs", "compare") for name in VARIANCES]
DRAWN = ("equal", "one x10", "spread")
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "power.png"


def measure_pairs(name: str, target: Target) -> dict[str, Any]:
    """Family-wise error and power for one better contestant, for each number of repetitions."""
    rule, world = recommended(target), VARIANCES[name]
    found: dict[str, Any] = {"error": {}, "power": {}}
    for number in REPETITIONS:
        found["error"][str(number)] = false_alarms(rule, world, number, TOURNAMENTS, target=target)
        found["power"][str(number)] = [
            power(rule, world, number, POWER_TOURNAMENTS, target=target, points=points) for points in POINTS
        ]
    return found


def measure_compare(name: str, target: Target) -> dict[str, Any]:
    """Error over five looks, power, and false equivalence of contestants that differ by the margin."""
    world, differ = VARIANCES[name], ("better", "worse")
    unclipped = replace(world, class_sd=5.0)  # rates near 1 are clipped, and the true difference falls below the margin
    return {
        "error": share_of_verdicts(world, LOOKS, TOURNAMENTS, target=target, words=differ),
        "power": [
            share_of_verdicts(world, LOOKS, POWER_TOURNAMENTS, target=target, words=("better",), gain=points)
            for points in POINTS
        ],
        "false equivalence": share_of_verdicts(
            unclipped,
            LOOKS,
            TOURNAMENTS,
            target=target,
            words=("equivalent",),
            gain=MARGIN,
            margin=MARGIN,
            ignore=differ,
        ),
    }


def measure(row: str) -> dict[str, Any]:
    rule, name = row.split(", ")
    return {target: (measure_pairs if rule == "all pairs" else measure_compare)(name, target) for target in TARGETS}


def table_lines(row: str, found: dict[str, Any]) -> list[list[Any]]:
    """Per cent: the error, and the power at four points."""
    four, lines = POINTS.index(4.0), []
    for target, values in found.items():
        if row.startswith("compare"):
            lines.append([row, target, f"up to {LOOKS[-1]}", 100 * values["error"], 100 * values["power"][four]])
            continue
        for number, error in values["error"].items():
            lines.append([row, target, number, 100 * error, 100 * values["power"][number][four]])
    return lines


def page_rows(figures: dict[str, Any]) -> list[str]:
    """The rows of the table in docs/decisions/0006-judgement.md: error, power at four points, in per cent."""
    four, rows = POINTS.index(4.0), []
    for row, found in figures.items():
        cells = []
        for values in found.values():
            if row.startswith("compare"):
                cells += [f"{100 * values['error']:.1f}", f"{100 * values['power'][four]:.0f}"]
                continue
            cells.append(" / ".join(f"{100 * value:.1f}" for value in values["error"].values()))
            cells.append(" / ".join(f"{100 * curve[four]:.0f}" for curve in values["power"].values()))
        rows.append(f"| {row} | {' | '.join(cells)} |")
    return rows


def draw_power(figures: dict[str, Any], path: Path) -> None:
    """Power over the true difference: a row of panels for each target, a column for each kind of variances."""
    figure = new_figure(10.0, 6.4)
    places = figure.subplots(len(TARGETS), len(DRAWN), sharex=True, sharey=True)
    for row, target in enumerate(TARGETS):
        for column, name in enumerate(DRAWN):
            place = places[row][column]
            curves = figures[f"all pairs, {name}"][target]["power"]
            lines = {f"all pairs, {number} repetitions": curve for number, curve in curves.items()}
            lines["compare, looks at 3 to 15"] = figures[f"compare, {name}"][target]["power"]
            for number, (label, curve) in enumerate(lines.items()):
                colour, marker, _ = line_style(number)
                dash = "--" if label.startswith("compare") else "-"
                place.plot(POINTS, [100 * v for v in curve], color=colour, marker=marker, linestyle=dash, label=label)
            place.axhline(80, color="0.7", linewidth=1, linestyle=":")
            place.set(title=f"{name}: {target}", ylim=(-3, 103))
            place.title.set_fontsize(10)
            place.grid(axis="y", color="0.92")
            place.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("true difference, points of R@1", y=0.08, fontsize=10)
    figure.supylabel("power, %", fontsize=10)
    figure.legend(*places[0][0].get_legend_handles_labels(), loc="lower center", ncols=4, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    save_figure(figure, path)


def main() -> None:
    """Measure the rows, print a table, draw the power curves of a complete record."""
    asked = arguments(__doc__ or "", ROWS)
    figures = {row: measure(row) for row in ROWS if asked.only in (None, row)}
    lines = [line for row, found in figures.items() for line in table_lines(row, found)]
    print_table("verdict rules, per cent", ["row", "target", "repetitions", "error", "power, 4 points"], lines)
    write_json(asked.json, "python -m benchmarks.verdict_rules", figures)
    if asked.json is not None and asked.only is None:
        draw_power(figures, PICTURE)


if __name__ == "__main__":
    main()
