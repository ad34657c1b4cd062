"""What a table says, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from similis.study.plan.schema import Plan
from similis.study.report.judged_table import JudgedTable
from similis.study.statistics.fair_table import FairTable
from similis.study.statistics.pooled import pooled_claim
from similis.study.statistics.significance import TARGETS, Target
from similis.study.statistics.variance_components import LEAST_REPETITIONS

MOST_NAMED = 4


def join_names(names: Sequence[str]) -> str:
    """Names as a sentence has them; beyond four, the others are counted.

    Example:
        >>> join_names(["a", "b", "c"]), join_names(list("abcdefg"))
        ('a, b and c', 'a, b, c and 4 others')
    """
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} others"]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def describe_table(judged: JudgedTable) -> list[str]:
    """The best, the verdicts for unseen classes and for these test classes, and who did not train."""
    words = []
    if judged.ranking:
        mean = 100 * float(judged.trained.scores.means.max())
        words.append(f"{judged.ranking[0]} has the highest mean R@1, {mean:.2f} %.")
    if judged.asked:
        describe = describe_pairs if judged.against is None else describe_baseline
        words += [describe(judged, target) for target in reversed(TARGETS)]
    else:
        words.append(explain_no_verdicts(judged))
    if judged.failed:
        words.append(f"Did not train: {', '.join(judged.failed)}.")
    return [*words, *filter(None, [describe_batches(judged.trained, judged.margin)])]


def describe_pairs(judged: JudgedTable, target: Target) -> str:
    """How many pairs have which verdict, and who is better than whom."""
    verdicts = [v for v in judged.asked if v.target == target]
    within = f"equivalent (within ±{judged.margin:g} points)"
    words = {"better": "significantly different", "equivalent": within, "undecided": "undecided"}
    number = {words[word]: sum(v.verdict == word for v in verdicts) for word in words}
    counts = ", ".join(f"{many} {word}" for word, many in number.items() if many)
    winners: dict[str, list[str]] = {}
    for v in verdicts:
        if v.verdict == "better":
            winners.setdefault(v.first, []).append(v.second)
    ordered = sorted(winners, key=judged.ranking.index)[:MOST_NAMED]
    shown = "".join(f" {name} is better than {join_names(winners[name])}." for name in ordered)
    return f"{len(verdicts)} pairs on {target}: {counts}.{shown}"


def describe_baseline(judged: JudgedTable, target: Target) -> str:
    """Who is better than the baseline, worse, equivalent or undecided."""
    ends = {
        "better": "better than {}", "worse": "worse than {}", "undecided": "undecided against {}",
        "equivalent": f"equivalent to {{}} (within ±{judged.margin:g} points)",
    }  # fmt: skip
    clauses = []
    for verdict, end in ends.items():
        names = [v.first for v in judged.asked if v.target == target and v.verdict == verdict]
        names.sort(key=judged.ranking.index)
        if names:
            clauses.append(f"{join_names(names)} {'is' if len(names) == 1 else 'are'} {end.format(judged.against)}")
    return f"On {target}, {'; '.join(clauses)}."


def describe_batches(table: FairTable, margin: float) -> str:
    """Balanced against random batches, pooled over the losses of a crossed plan; empty if fewer than three have both.

    The claim is about losses. Over repetitions it would hold for these losses only, and the sentence names both.
    """
    values = dict(zip(table.names, table.scores.per_repetition, strict=True))
    pairs = [(name, name.replace("+balanced", "+random")) for name in values if "+balanced" in name]
    apart = [values[one] - values[other] for one, other in pairs if other in values]
    if len(apart) < LEAST_REPETITIONS or len(table.repetitions) < LEAST_REPETITIONS:
        return ""
    return pooled_claim(np.stack(apart), "losses", margin=margin).describe("Balanced against random batches")


def explain_no_verdicts(judged: JudgedTable) -> str:
    """Why a table has no verdicts."""
    if judged.against in judged.failed:
        return f"No verdicts: the baseline {judged.against} did not train."
    if not judged.trained.names:
        return "No verdicts: no contestant clears the floors."
    if judged.trained.scores.can_be_judged:
        return f"No verdicts: the baseline {judged.against} is not in this table."
    return (
        f"No verdicts: they need {LEAST_REPETITIONS} repetitions at least, five to find much, two contestants that "
        "trained, and two test classes."
    )


def missing_tuning(plan: Plan, table: FairTable) -> str:
    """Why the intervals of a table leave out what tuning varies; empty if they include it."""
    searched = [name for name in table.names if not plan.contestant(name).fixed]
    if plan.search.trials < 2 or not searched:
        return "Nothing was searched: the intervals hold for these settings and leave out the variance of tuning."
    if not table.tuning_inside:
        return "One search served all repetitions: the intervals leave out the variance of tuning."
    fixed = [name for name in table.names if name not in searched]
    if fixed:
        return f"Settings that are fixed, whose intervals leave out the variance of tuning: {', '.join(fixed)}."
    return ""
