"""What a table says, in words."""

from __future__ import annotations

from collections import Counter
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
    """The best, the verdicts for unseen classes and for these test classes, and contestants that did not train."""
    words = []
    if judged.ranking:
        mean = 100 * float(judged.trained.scores.means.max())
        words.append(f"{judged.ranking[0]} has the highest mean R@1, {mean:.2f} %.")
    if judged.asked:
        words += [describe_target(judged, target) for target in reversed(TARGETS)]
    else:
        words.append(explain_no_verdicts(judged))
    if judged.failed:
        words.append(f"Did not train: {', '.join(judged.failed)}.")
    return [*words, *filter(None, [describe_batches(judged.trained, judged.plan.margin)])]


def describe_target(judged: JudgedTable, target: Target) -> str:
    """The verdict about a single pair; of several, how many have which, and which are better or worse."""
    verdicts = [v for v in judged.asked if v.target == target]
    if len(verdicts) == 1:
        return verdicts[0].sentence
    within = f"equivalent (within ±{judged.plan.margin:g} points)"
    words = {"better": "significantly different", "worse": "significantly different", "equivalent": within}
    number = Counter(words.get(v.verdict, v.verdict) for v in verdicts)
    said: dict[tuple[str, str], list[str]] = {}
    for v in verdicts:
        if v.verdict in ("better", "worse"):
            said.setdefault((v.first, v.verdict), []).append(v.second)
    ordered = sorted(said, key=lambda each: judged.ranking.index(each[0]))[:MOST_NAMED]
    shown = "".join(f" {name} is {verdict} than {join_names(said[name, verdict])}." for name, verdict in ordered)
    counts = ", ".join(
        f"{number[word]} {word}" for word in (*dict.fromkeys(words.values()), "undecided") if number[word]
    )
    return f"{len(verdicts)} pairs on {target}: {counts}.{shown}"


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


def describe_verdicts(judged: JudgedTable) -> list[str]:
    """A sentence for each verdict, unseen classes first, or one that says why there is none."""
    return [v.sentence for v in reversed(judged.asked)] or [explain_no_verdicts(judged)]


def explain_no_verdicts(judged: JudgedTable) -> str:
    """Why a table has no verdicts."""
    against, failed = judged.plan.against, judged.failed
    if failed and (against in failed or len(judged.trained.names) < 2):
        which = "; ".join(f"{name} does not beat {floor}" for name, (floor, _) in failed.items())
        remedy = "train longer, in more dimensions (model.dim), validate on more classes, or take other data"
        return f"No verdict: {which}. Contestants that do not beat such a baseline did not train: {remedy}."
    if judged.trained.scores.can_be_judged:
        return f"No verdict: the baseline {against} is not in this table."
    contestants, classes, repetitions = judged.whole.scores.values.shape
    return (
        f"No verdict: {repetitions} repetition(s) are done, of {contestants} contestant(s) on {classes} test classes; "
        f"the fewest that say anything are {LEAST_REPETITIONS}, of two on two: run more, or give more hours."
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
