"""Pairs that are cuts of one image: the correlation against a plain loop, copies against other images."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from similis.data.copies import make_copy, small_grey
from similis.retrieval.duplicates import best_window, close_pairs, overlap
from similis.values import Neighbors

pillow = pytest.importorskip("PIL.Image", reason="needs Pillow")


def smooth_image(seed, side=160):
    noise = np.random.default_rng(seed).integers(0, 256, (9, 9, 3)).astype(np.uint8)
    return pillow.fromarray(noise).resize((side, side), pillow.Resampling.BICUBIC)


def test_the_best_window_is_that_of_a_plain_loop():
    chance = torch.Generator().manual_seed(0)
    whole, cut = torch.rand(2, 20, 20, generator=chance), torch.rand(2, 20, 20, generator=chance)
    found = best_window(whole, cut)
    for n in range(2):
        best = -1.0
        for width in range(18, 21):
            small = torch.nn.functional.interpolate(
                cut[n][None, None], size=(width, width), mode="bilinear", antialias=True
            )
            for y in range(20 - width + 1):
                for x in range(20 - width + 1):
                    window = whole[n, y : y + width, x : x + width].flatten()
                    best = max(best, float(torch.corrcoef(torch.stack([window, small.flatten()]))[0, 1]))
        assert float(found[n]) == pytest.approx(best, abs=1e-4)


def test_copies_overlap_and_other_images_do_not():
    generator = np.random.default_rng(0)
    images = [smooth_image(seed) for seed in range(12)]
    copies = [make_copy(image, generator) for image in images]
    first, second = (torch.stack([small_grey(image) for image in some]) for some in (images, copies))
    assert float(overlap(first, second).min()) > 0.95
    assert float(overlap(first, second.roll(1, 0)).max()) < 0.85


def test_close_pairs_are_listed_once():
    near = Neighbors(torch.tensor([[1, 2], [0, 2], [1, 0]]), torch.tensor([[0.9, 0.1], [0.9, 0.8], [0.8, 0.1]]))
    assert close_pairs(near, 0.5).tolist() == [[0, 1], [1, 2]]
    assert close_pairs(near, 0.5, most=1).tolist() == [[0, 1], [1, 2]]
    assert close_pairs(near, 0.95).shape == (0, 2)
    assert overlap(torch.empty(0, 64, 64), torch.empty(0, 64, 64)).shape == (0,)
