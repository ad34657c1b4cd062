"""The five rows, the map and the plain loops that the tests of this room share."""

import numpy as np

ROWS = np.array([[0.0, 0.0], [1.0, 0.2], [0.5, 1.0], [2.0, 0.3], [1.5, 1.2]])
LABELS = np.array([0, 0, 1, 1, 1])
MAP = np.array([[1.0, 0.3], [0.0, 0.8]])


def blobs(rows: int = 40, columns: int = 3, seed: int = 0, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes with one column that says nothing and is wide."""
    generator = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    centres = 1.5 * generator.standard_normal((classes, columns))
    table = centres[labels] + generator.standard_normal((rows, columns))
    table[:, -1] = 3.0 * generator.standard_normal(rows)
    return table, labels
