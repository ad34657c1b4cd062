"""Softmax: oracle, worked numbers. The peer library has no raw softmax."""

from tests.batches import A_LABELS, PROXIES_A, A
from tests.plain import dot, lse, mean


def oracle(x, labels, learned, options):
    rows = [[dot(row, w) for w in learned["proxies"]] for row in x]
    return mean([lse(row) - row[y] for row, y in zip(rows, labels, strict=True)])


ORACLES = {"default": oracle}


WORKED = [
    ((A, A_LABELS, PROXIES_A), {}, 0.62835814),
    ((A, A_LABELS, 2 * PROXIES_A), {}, 0.38131580),
]
