"""Wrong labels on purpose: how well does a loss bear them?"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from similis.data.manifest import Manifest
from similis.data.random_draws import counter_generator
from similis.values import UserError

_STREAM = 3  # beside those of the splits


def with_wrong_labels(manifest: Manifest, rows: Tensor, share: float, *, seed: int = 0) -> Manifest:
    """The manifest with a share of these rows' labels replaced by another class of these rows, evenly drawn.

    Exactly round(share * n) rows change, and each of them to a class that is not its own (symmetric noise).
    All other rows, those of the validation and test classes among them, stay as they are.

    Args:
        manifest: the data set.
        rows: row numbers whose labels may change: the training rows.
        share: of the rows that get a wrong label, 0 to 1.
        seed: of the draw.

    When to use: to compare losses under label noise; set ``data.wrong_labels`` of a run.

    Example:
        >>> from similis.data.open_data import open_data
        >>> import torch
        >>> clean = open_data("synthetic?classes=8&images=5&size=8")
        >>> noisy = with_wrong_labels(clean, torch.arange(20), 0.3)
        >>> int((noisy.labels != clean.labels).sum()), bool((noisy.labels[20:] == clean.labels[20:]).all())
        (6, True)
    """
    labels = manifest.labels.numpy().copy()
    classes = np.unique(labels[rows.numpy()])
    if not 0 <= share <= 1 or (share and len(classes) < 2):
        raise UserError(f"wrong labels for a share of {share} of {len(classes)} classes; want 0 to 1 and two classes")
    generator = counter_generator(seed, _STREAM)
    chosen = generator.permutation(rows.numpy())[: round(share * len(rows))]
    steps = generator.integers(1, max(2, len(classes)), len(chosen))  # 1 to C - 1 places on: never its own class
    labels[chosen] = classes[(np.searchsorted(classes, labels[chosen]) + steps) % len(classes)]
    names = manifest.classes(torch.arange(len(manifest)))
    return manifest.with_columns({"label": labels.tolist(), "class_name": [names[label] for label in labels.tolist()]})
