"""Explanations: parts that sum to the similarity, and regions whose loss makes real photos less alike."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import similis
from similis.data.open_data import open_data
from similis.figures.explanation import dim
from similis.networks.embedder import build_embedder
from similis.networks.explanation import similarity_maps
from similis.values import UserError
from tests.networks.randomly import images

ROOT = os.environ.get("SIMILIS_DATA", "")
WEIGHTS = Path(ROOT) / "weights" / "tf_efficientnet_lite0_imagenet.safetensors"
PAIRS, SHIFTS, NEEDED = 12, 8, 9


@pytest.mark.parametrize("pooling", ["gap", "gap+gmp"])
def test_parts_are_those_of_a_plain_loop_and_sum_to_the_similarity(pooling):
    model = build_embedder(backbone="small_conv", dim=0, pooling=pooling, image_size=32).eval()
    x = images(2, 32)
    similarity, parts = similarity_maps(model, x)
    with torch.no_grad():
        maps = model.backbone(x).double()
        vectors = model.project(model.backbone(x)).double()
    scale = float(vectors[0].norm() * vectors[1].norm())
    assert similarity == pytest.approx(float(vectors[0] @ vectors[1]) / scale, abs=1e-6)
    places = maps.shape[2] * maps.shape[3]
    expected = torch.zeros(2, *maps.shape[2:], dtype=torch.float64)
    for one, other in ((0, 1), (1, 0)):
        for f in range(maps.shape[1]):
            channel = maps[one, f]
            expected[one] += channel / places * vectors[other, f] / scale
            if pooling == "gap+gmp":
                top = int(channel.argmax())
                expected[one].view(-1)[top] += channel.max() * vectors[other, f] / scale
    assert torch.allclose(parts.double(), expected, atol=1e-6)
    assert parts.sum((1, 2)).tolist() == pytest.approx([similarity] * 2, abs=1e-5)


def test_tokens_that_the_network_pools_itself_are_refused_with_what_to_do():
    model = build_embedder(backbone="test_vit", dim=0, pooling="own").eval()
    with pytest.raises(UserError, match="build it with pooling=gap"):
        similarity_maps(model, images(2, 160))
    with pytest.raises(UserError, match="give two"):
        similarity_maps(model, images(3, 160))


def test_the_picture_is_lit_at_the_largest_part_and_dark_elsewhere():
    white = np.full((8, 8, 3), 255, dtype=np.uint8)
    shown = dim(white, torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
    assert shown[:2, :2].min() >= 240
    assert shown[0, 0].tolist() == [255, 255, 255]
    assert shown[-2:, -2:].max() < 100


@pytest.mark.photos
@pytest.mark.skipif(not WEIGHTS.exists(), reason="real photos and weights are not here (SIMILIS_DATA)")
def test_hiding_the_named_region_costs_more_similarity_than_hiding_another_of_its_size_and_shape():
    model = similis.pretrained("tf_efficientnet_lite0", weights=WEIGHTS, size=160, device="cpu")
    data, draw = open_data("cub200_2011", root=ROOT), random.Random(5)
    labels, test = data.labels.tolist(), [row for row, part in enumerate(data.parts) if part == "test"]
    won = 0
    for _ in range(PAIRS):
        a = draw.choice(test)
        b = draw.choice([row for row in test if labels[row] == labels[a] and row != a])
        first, second = data.read_bytes(a), data.read_bytes(b)
        found = model.explain(first, second)
        seen = model._encoder.prepare([first])[0][0]
        parts = found.parts[0]
        mask = parts >= parts.flatten().topk(round(0.2 * parts.numel())).values[-1]
        shifts = [(draw.randrange(5), draw.randrange(5)) for _ in range(SHIFTS)]
        others = [torch.roll(mask, shift, (0, 1)) for shift in shifts if shift != (0, 0)]
        hidden = [covered(seen, region) for region in (mask, *others)]
        lost = found.similarity - model.similarity(hidden, second)
        won += bool(lost[0] > lost[1:].mean())
    assert won >= NEEDED, f"{won} of {PAIRS}"


def covered(seen, region):
    """The square that the network sees with the places of a mask in the image's mean colour."""
    out = seen.copy()
    side = len(seen) // len(region)
    for y, x in region.nonzero().tolist():
        out[y * side : (y + 1) * side, x * side : (x + 1) * side] = seen.mean((0, 1))
    return out
