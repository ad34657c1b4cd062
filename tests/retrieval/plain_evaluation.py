"""The oracle of evaluation: definitions as plain loops over lists, sharing no line with the package."""

import math


def cosine(a, b):
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths > 0 else 0.0


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def plain_metrics(hits, ks):
    """All metrics of one query from the list of right and wrong answers, best first; None without a right one."""
    total = sum(hits)
    if total == 0:
        return None
    values = {}
    for k in ks:
        values[f"recall@{k}"] = 1.0 if any(hits[:k]) else 0.0
        values[f"precision@{k}"] = sum(hits[:k]) / k
    values["r_precision"] = sum(hits[:total]) / total
    values["map@r"] = sum(sum(hits[: i + 1]) / (i + 1) for i in range(total) if hits[i]) / total
    values["mrr"] = 1.0 / (hits.index(True) + 1)
    return values


def plain_evaluation(vectors, labels, ids, *, ks, queries=None, gallery=None, groups=None, likeness=cosine):
    """Values of each query (None where it has no match), and the pessimistic order of rows of each query."""
    rows = range(len(vectors))
    values, orders = [], []
    for q in rows if queries is None else queries:
        found = []
        for g in rows if gallery is None else gallery:
            if ids[g] == ids[q]:
                continue
            if groups is not None and groups[q] >= 0 and groups[q] == groups[g]:
                continue
            found.append((-likeness(vectors[q], vectors[g]), labels[q] == labels[g], g))
        found.sort(key=lambda one: one[:2])  # falling similarity, and False before True
        values.append(plain_metrics([match for _, match, _ in found], ks))
        orders.append(found)
    return values, orders
