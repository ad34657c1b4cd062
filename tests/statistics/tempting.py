"""Procedures that tempt, and fail: each returns corrected p of all pairs.

``python -m tests.statistics.tempting`` prints the table of docs/decisions/0006-judgement.md.
"""

import sys

import numpy as np
from scipy import stats

from similis.study.statistics.significance import TARGETS, holm
from similis.study.statistics.variance_components import Scores, variance_components
from tests.statistics.rates import Procedure, false_alarms, power, recommended
from tests.statistics.simulated import World

RESAMPLES = 2000


def pairs(scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(len(scores.names), 1)


def welch(scores: Scores) -> np.ndarray:
    """Welch's t over repetitions."""
    first, second = pairs(scores)
    y = scores.per_repetition
    return holm(stats.ttest_ind(y[first], y[second], axis=1, equal_var=False).pvalue)


def welch_classes(scores: Scores) -> np.ndarray:
    """Own variances and classes, all combined by Satterthwaite's formula, for unseen classes."""
    first, second = pairs(scores)
    found = variance_components(scores)
    own = scores.per_repetition.var(axis=1, ddof=1) / found.repetitions
    classes, residual = found.classes[first, second], found.residual[first, second]
    repetition, by_class, by_loss = own[first] + own[second], found.effective_classes - 1, found.repetitions - 1
    variance = np.maximum.reduce([classes + repetition - residual, classes, repetition, residual])
    spread = classes**2 / by_class + (own[first] ** 2 + own[second] ** 2) / by_loss
    spread += residual**2 / (2 * by_loss * by_class)
    difference = np.abs(found.difference[first, second])
    return holm(2 * stats.t.sf(difference / np.sqrt(variance), variance**2 / spread))


def pooled_t(scores: Scores) -> np.ndarray:
    """t over repetitions with one variance for all losses."""
    first, second = pairs(scores)
    y = scores.per_repetition
    m, s = y.shape
    error = np.sqrt(2 * y.var(axis=1, ddof=1).mean() / s)
    return holm(2 * stats.t.sf(np.abs(y.mean(1)[first] - y.mean(1)[second]) / error, m * (s - 1)))


def mean_floor(scores: Scores) -> np.ndarray:
    """Own variance, at least the mean of all, pooled degrees of freedom."""
    first, second = pairs(scores)
    y = scores.per_repetition
    m, s = y.shape
    own = y.var(axis=1, ddof=1)
    own = np.maximum(own, own.mean())
    error = np.sqrt((own[first] + own[second]) / s)
    return holm(2 * stats.t.sf(np.abs(y.mean(1)[first] - y.mean(1)[second]) / error, m * (s - 1)))


def class_t(scores: Scores) -> np.ndarray:
    """Paired t over classes."""
    first, second = pairs(scores)
    mean = scores.values.mean(axis=2)
    return holm(stats.ttest_rel(mean[first], mean[second], axis=1).pvalue)


def nemenyi_classes(scores: Scores) -> np.ndarray:
    """Friedman and Nemenyi, classes as blocks."""
    return nemenyi(scores.values.mean(axis=2).T, pairs(scores))


def nemenyi_repetitions(scores: Scores) -> np.ndarray:
    """Friedman and Nemenyi, repetitions as blocks."""
    return nemenyi(scores.per_repetition.T, pairs(scores))


def nemenyi(blocks: np.ndarray, both: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """P of the difference of mean ranks (n blocks, m losses) by the studentized range, Demsar 2006."""
    n, m = blocks.shape
    ranks = stats.rankdata(blocks, axis=1).mean(axis=0)
    apart = np.abs(ranks[both[0]] - ranks[both[1]]) / np.sqrt(m * (m + 1) / (12 * n))
    return stats.studentized_range.sf(apart, m, np.inf)


def repetition_bootstrap(scores: Scores) -> np.ndarray:
    """Percentile bootstrap over repetitions."""
    return bootstrap(scores, scores.per_repetition[:, :, None], classes=False)


def uncorrected(scores: Scores) -> np.ndarray:
    """Welch's t over repetitions, not corrected for many pairs."""
    first, second = pairs(scores)
    y = scores.per_repetition
    return stats.ttest_ind(y[first], y[second], axis=1, equal_var=False).pvalue


def crossed_bootstrap(scores: Scores) -> np.ndarray:
    """Percentile bootstrap over classes and repetitions."""
    return bootstrap(scores, None, classes=True)


def bootstrap(scores: Scores, per_repetition: np.ndarray | None, *, classes: bool) -> np.ndarray:
    m, K, s = scores.values.shape
    chance = np.random.default_rng(int(scores.values.sum() * 1e6) % 2**32)
    draws = chance.multinomial(s, np.full(s, 1 / s), (RESAMPLES, m)) / s  # repetitions are not paired
    if classes:
        weight = chance.multinomial(K, np.full(K, 1 / K), RESAMPLES) * scores.weights
        weight /= weight.sum(axis=1, keepdims=True)
        means = np.einsum("rcs,cks,rk->rc", draws, scores.values, weight, optimize=True)
    else:
        means = np.einsum("rcs,csx->rc", draws, per_repetition)
    first, second = pairs(scores)
    apart = means[:, first] - means[:, second]
    tail = np.minimum((apart <= 0).mean(axis=0), (apart >= 0).mean(axis=0))
    return holm(2 * tail)


TEMPTING: dict[str, Procedure] = {
    "Welch over repetitions + Holm": welch,
    "pooled t over repetitions + Holm": pooled_t,
    "own variance, at least the mean of all + Holm": mean_floor,
    "paired t over classes + Holm": class_t,
    "Friedman-Nemenyi, classes as blocks": nemenyi_classes,
    "Friedman-Nemenyi, repetitions as blocks": nemenyi_repetitions,
    "crossed percentile bootstrap + Holm": crossed_bootstrap,
    "percentile bootstrap over repetitions + Holm": repetition_bootstrap,
    "Welch over repetitions, not corrected": uncorrected,
}


def main(number: int) -> None:
    """Print the table: false alarms and power in per cent at 3, 5 and 10 repetitions."""
    rows = {
        "**ours, these test classes**": recommended("these test classes"),
        "**ours, unseen classes**": recommended("unseen classes"),
    }
    print("| procedure | false alarms, these test classes | unseen classes | power, two points, these test classes |")
    print("|---|---|---|---|")
    for name, procedure in (rows | TEMPTING).items():
        cells = []
        for target in TARGETS:
            cells.append([false_alarms(procedure, World(), s, number, target=target) for s in (3, 5, 10)])
        cells.append([power(procedure, World(), s, number // 5, target="these test classes") for s in (3, 5, 10)])
        shown = (" / ".join(f"{100 * value:.0f}" for value in cell) for cell in cells)
        print(f"| {name} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
