"""Synthetic vectors with the spectrum and the classes of real features, as many as are wanted."""

from __future__ import annotations

import numpy as np

DIM, CLASS = 128, 50  # dimensions, and vectors of a class in the mean


def draw_vectors(number: int, rows: int, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (n, D) of a table and their classes: Gaussians around Gaussian means, rotated, of unit length.

    Variances fall as those between and within the 200 birds do in the features' first 128 components; the mean has the
    norm of theirs.
    """
    place = np.arange(1, DIM + 1)
    between = np.minimum(0.05 * place**-0.95, 0.39 * place**-1.9) ** 0.5
    within = np.minimum(0.0139 * place**-0.45, 0.031 * place**-0.79) ** 0.5
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((DIM, DIM)))[0].astype(np.float32)
    chance = np.random.default_rng((2, number))
    own = chance.integers(0, len(means), rows)
    found = (0.64 * np.eye(DIM)[-1] + means[own] * between + chance.standard_normal((rows, DIM)) * within).astype(
        np.float32
    ) @ turn
    return found / np.linalg.norm(found, axis=1, keepdims=True), own
