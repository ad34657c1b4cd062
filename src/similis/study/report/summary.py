"""What a table says, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from similis.loss_file import MARK
from similis.registry import losses
from similis.study.plan.schema import Plan
from similis.study.report.judged_table import JudgedTable
from similis.study.statistics.fair_table import FairTable
from similis.study.statistics.significance import TARGETS, Target
from similis.values import UserError

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
    """The best, the verdicts for unseen classes and for these test classes, and contestants below a baseline."""
    mean = 100 * float(judged.whole.scores.means.max())
    words = [f"{judged.ranking[0]} has the highest mean R@1, {mean:.2f} %."]
    if judged.asked:
        words += [describe_target(judged, target) for target in reversed(TARGETS)]
    else:
        words.append(judged.reason)
    if judged.below:
        words.append(f"Not above a baseline of the same size: {', '.join(judged.below)}.")
    if plain := plain_losses(judged.plan, judged.ranking):
        words.append(f"Plain functions, computed as they are in one process: {', '.join(plain)}.")
    return words


def plain_losses(plan: Plan, names: Sequence[str]) -> list[str]:
    """Contestants whose loss is a function of a file that is not registered; a file that is gone tells nothing."""
    found = []
    for name in names:
        loss = plan.contestant(name).loss
        with suppress(UserError):
            found += [name] if MARK in loss and losses.get(loss).plain is not None else []
    return found


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


def describe_verdicts(judged: JudgedTable) -> list[str]:
    """A sentence for each verdict, unseen classes first, or one that says why there is none."""
    return [v.sentence for v in reversed(judged.asked)] or [judged.reason]


def missing_tuning(plan: Plan, table: FairTable) -> str:
    """Why the intervals of a table leave out what tuning varies; empty if they include it."""
    searched = [name for name in table.names if not plan.contestant(name).fixed]
    if not plan.search.trials or not searched:
        return "Nothing was searched: the intervals hold for these settings and leave out the variance of tuning."
    if not table.tuning_inside:
        return "One search served all repetitions: the intervals leave out the variance of tuning."
    fixed = [name for name in table.names if name not in searched]
    if fixed:
        return f"Settings that are fixed, whose intervals leave out the variance of tuning: {', '.join(fixed)}."
    return ""
