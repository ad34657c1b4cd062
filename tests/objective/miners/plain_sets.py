"""Batches as miners see them, and plain views of what they return."""

import torch

from tests.batches import random_batch


def seen(x, labels):
    """Similarity, positives and negatives of a batch against itself."""
    unit = torch.nn.functional.normalize(x, dim=1)
    same = labels[:, None] == labels
    return unit @ unit.T, same & ~torch.eye(len(x), dtype=torch.bool), ~same


def random_seen(seed, memory=7):
    """A random batch with duplicates, followed by columns of a memory in which row 0 occurs again."""
    x, labels = random_batch(seed)
    similarity, positive, negative = seen(x, labels)
    if memory:
        old, old_labels = random_batch(seed + 50)
        unit, rest = (torch.nn.functional.normalize(v, dim=1) for v in (x, old[:memory]))
        same = labels[:, None] == old_labels[:memory]
        known = torch.ones_like(same)
        known[0, 0] = False  # the memory's first row is the image of row 0
        similarity = torch.cat([similarity, unit @ rest.T], 1)
        positive = torch.cat([positive, same & known], 1)
        negative = torch.cat([negative, ~same & known], 1)
    return similarity, positive, negative


def columns(mask, i):
    return [j for j in range(mask.shape[1]) if mask[i, j]]


def every_triplet(positive, negative):
    rows = range(len(positive))
    return [(a, p, n) for a in rows for p in columns(positive, a) for n in columns(negative, a)]


def triplet_list(found):
    return list(zip(*(part.tolist() for part in found), strict=True))


def pair_lists(found):
    a, p, b, n = (part.tolist() for part in found)
    return list(zip(a, p, strict=True)), list(zip(b, n, strict=True))


def chi_square(counts, chances):
    """Pearson's statistic and its degrees of freedom; a draw without chance is refused."""
    total = sum(counts)
    assert all(c == 0 for c, p in zip(counts, chances, strict=True) if p == 0)
    used = [(c, p * total) for c, p in zip(counts, chances, strict=True) if p > 0]
    return sum((c - e) ** 2 / e for c, e in used), len(used) - 1
