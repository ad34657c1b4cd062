"""A table of results under equal terms, the only form in which results are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from similis.study.plan.equal_terms import UnequalTermsError, equal_terms
from similis.study.statistics.significance import TARGETS, combine_components
from similis.study.statistics.variance_components import Floats, Scores, class_influence, residual_products
from similis.values import UserError, import_extra

Record = Mapping[str, Any]
RULE = 2  # of judgement: repetitions are declared, draws are shared within one; results of another get no verdict


@dataclass(frozen=True, eq=False)
class FairTable:
    """Final runs of one arena and length; made by :func:`fair_table`, which raises for unequal terms.

    Attributes:
        arena, length: which table this is.
        terms: what is equal for all rows.
        scores: per-class recall of every contestant and repetition.
        runs: (m, K, R, n) the same for each of the n runs of a repetition.
        labels: the test classes.
        repetitions: that every contestant has finished; others are left out.
        records: contestant -> its records, by repetition, run and fold.
    """

    arena: str
    length: str
    terms: Mapping[str, Any]
    scores: Scores
    runs: Floats
    labels: tuple[int, ...]
    repetitions: tuple[int, ...]
    records: Mapping[str, tuple[Record, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """Contestants, in the order of the scores."""
        return self.scores.names

    @property
    def selected_on_test(self) -> bool:
        """Whether the protocol chose epochs and settings by looking at the test classes."""
        return bool(self.terms.get("data.protocol") == "default")

    @property
    def tuning_inside(self) -> bool:
        """Whether every repetition tuned anew, so that intervals have what tuning varies."""
        return not self.terms.get("tuning.search.shared", True)

    @property
    def follows_rule(self) -> bool:
        """Whether all results were made under today's rule of judgement, see docs/decisions/0006-judgement.md."""
        return all(r.get("rule") == RULE for rows in self.records.values() for r in rows)

    @property
    def title(self) -> str:
        """Arena and length, with a warning if the test classes were used for selection."""
        return f"{self.arena}, {self.length}" + (" (selected on test)" if self.selected_on_test else "")

    def order(self) -> list[int]:
        """Contestants by falling mean."""
        return sorted(range(len(self.names)), key=lambda c: (-self.scores.means[c], self.names[c]))


def fair_table(records: Sequence[Record]) -> FairTable:
    """A table from the records of one arena and length."""
    ordered = sorted(records, key=lambda r: (r["contestant"], r["repetition"], r["run"], r["fold"]))
    terms = equal_terms([(f"{r['contestant']} (repetition {r['repetition']})", r["held"]) for r in ordered])
    check_classes(ordered)
    by_name: dict[str, list[Record]] = {}
    for record in ordered:
        by_name.setdefault(record["contestant"], []).append(record)
    rounds = [{(r["repetition"], r["run"], r["fold"]) for r in rows} for rows in by_name.values()]
    every, shared = set.union(*rounds), set.intersection(*rounds)
    runs_of_one = {each[1:] for each in every}
    repetitions = tuple(
        r for r in sorted({each[0] for each in every}) if {(r, *each) for each in runs_of_one} <= shared
    )
    if not repetitions:
        raise UserError("no repetition is finished by every contestant; run the tournament on, then ask for its report")
    by_name = {name: [r for r in rows if r["repetition"] in repetitions] for name, rows in by_name.items()}
    numbers = sorted({each[1] for each in shared})
    runs = np.stack([
        np.stack([np.stack([class_recall(rows, each, n) for n in numbers], axis=-1) for each in repetitions], axis=1)
        for rows in by_name.values()
    ])  # fmt: skip
    per_class = ordered[0]["per_class"]
    sizes = np.array(per_class["queries"], dtype=np.float64)
    return FairTable(
        arena=ordered[0]["arena"],
        length=ordered[0]["length"],
        terms=terms,
        scores=Scores(tuple(by_name), runs.mean(axis=3), sizes, paired=share_draws(list(by_name.values()))),
        runs=runs,
        labels=tuple(per_class["labels"]),
        repetitions=repetitions,
        records={name: tuple(rows) for name, rows in by_name.items()},
    )


def share_draws(rows: Sequence[Sequence[Record]]) -> bool:
    """Whether all contestants have the same seeds and validation classes in every run: repetitions are pairs."""
    draws = [[(r["spec"]["seed"], r["spec"]["data"].get("validation_seed")) for r in each] for each in rows]
    return all(each == draws[0] for each in draws)


def check_classes(records: Sequence[Record]) -> None:
    """Raise unless all results are of the same test classes with as many queries each."""
    first = records[0]
    for record in records:
        for key in ("labels", "queries"):
            if record["per_class"][key] != first["per_class"][key]:
                raise UnequalTermsError(f"test {key}", (first["name"], "one set"), (record["name"], "another"))


def class_recall(rows: Sequence[Record], repetition: int, run: int) -> Floats:
    """Per-class recall (K,) of one run of a repetition, the mean over its folds."""
    found = [r["per_class"] for r in rows if (r["repetition"], r["run"]) == (repetition, run)]
    return np.asarray(np.mean([np.array(each["hits"]) / np.array(each["queries"]) for each in found], axis=0))


def own_intervals(scores: Scores) -> tuple[Floats, Floats]:
    """Half widths of each loss's own 95 % interval: for these test classes and for unseen classes.

    By Student's t with the loss's own variance. Classes are shared, so two losses whose intervals overlap may still
    differ significantly. NaN for a single class or repetition.
    """
    m, K, R = scores.values.shape
    if m == 0 or K < 2 or R < 2:
        return np.full(m, np.nan), np.full(m, np.nan)
    influence, own = class_influence(scores), scores.per_repetition.var(axis=1, ddof=1)
    classes, residual = (K - 1) / K * (influence.mean(axis=2) ** 2).sum(axis=1), residual_products(influence).diagonal()
    freedom, number = np.full(m, R - 1.0), scores.effective_classes
    near, far = (
        combine_components(own / R, freedom, classes, residual, effective_classes=number, target=target)
        for target in TARGETS
    )
    t = import_extra("scipy.stats").t
    return np.asarray(t.ppf(0.975, near[1]) * np.sqrt(near[0])), np.asarray(t.ppf(0.975, far[1]) * np.sqrt(far[0]))
