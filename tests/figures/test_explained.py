"""The figures that explain: what they draw is what losses and miners compute."""

import math

import pytest
import torch

from docs.generator.drawn.batches import MARGIN, MINERS, POSITIVE, mined_batch, mined_negatives
from docs.generator.drawn.margins import needed_angle, satisfied_angles
from docs.generator.drawn.pair_weights import NEGATIVE, SIMILARITIES, pair_weights
from docs.generator.drawn.steps import FIRST, STEPS, descend
from docs.generator.explained import FIGURES, PICTURES
from similis.registry import losses


def test_weights_of_known_losses():
    found = pair_weights("contrastive")
    assert found["pull"].min() == pytest.approx(found["pull"].max())  # a cosine pulls alike at any distance
    beyond = SIMILARITIES > 0.5 + 1e-9
    assert (found["push"][~beyond] == 0).all()
    assert (found["push"][beyond] > 0).all()
    scale = 16.0
    pull = pair_weights("normface", settings={"scale": scale})["pull"]
    logits = scale * torch.stack(
        [SIMILARITIES, torch.full_like(SIMILARITIES, NEGATIVE), torch.zeros_like(SIMILARITIES)]
    )
    expected = scale * (1 - logits.softmax(0)[0]) / 2  # two samples share the mean
    assert torch.allclose(pull, expected.float(), rtol=1e-5)


@pytest.mark.parametrize("name", [entry.name for entry in losses])
def test_every_loss_pulls_positives_and_pushes_negatives_somewhere(name, monkeypatch):
    monkeypatch.setattr("docs.generator.drawn.pair_weights.SIMILARITIES", SIMILARITIES[::6])
    found = pair_weights(name)
    assert found["pull"].max() > 1e-6
    assert found["push"].max() > 1e-6


def test_miners_pick_from_their_zones():
    x, labels = mined_batch()
    assert torch.allclose(x.norm(dim=1), torch.ones(len(x), dtype=torch.float64))
    negatives = (x @ x.T)[0, labels != 0]
    assert (mined_negatives("batch_hard") == negatives.max()).all()
    below = negatives[negatives < POSITIVE]
    assert (mined_negatives("semi_hard") == below.max()).all()
    band = mined_negatives("semi_hard_band").unique()
    assert torch.equal(band, below[below > POSITIVE - MARGIN].sort().values)
    assert all(torch.isin(mined_negatives(name), negatives).all() for name in MINERS)


def test_wedges_and_margins_are_those_of_the_losses():
    apart = {
        name: satisfied_angles(name, 1).min() - satisfied_angles(name, 0).max() for name in ("normface", "arcface")
    }
    assert apart["normface"] == pytest.approx(0.0, abs=0.5)
    assert apart["arcface"] == pytest.approx(28.6, abs=0.5)
    edge = math.radians(float(satisfied_angles("cosface", 0).max()))
    assert math.cos(edge) - math.cos(math.radians(80) - edge) == pytest.approx(0.35, abs=0.01)
    for positive in (0.0, 40.0, 90.0):
        near = math.radians(positive)
        farther = {
            "angle": near + 0.3,
            "cosine": math.acos(math.cos(near) - 0.3),
            "euclid": 2 * math.asin(math.sin(near / 2) + 0.15),
            "euclid2": math.acos(math.cos(near) - 0.15),
        }
        for geometry, angle in farther.items():
            assert needed_angle(geometry, positive) == pytest.approx(math.degrees(angle), abs=0.6), geometry
    assert math.isnan(needed_angle("cosine", 175.0))


@pytest.mark.parametrize("name", ["triplet", "proxy_anchor"])
def test_steps_are_gradient_steps_on_the_sphere(name):
    paths, labels, values, proxies = descend(name)
    assert paths.shape == (STEPS + 1, len(labels), 3)
    assert torch.allclose(paths.norm(dim=-1), torch.ones(paths.shape[:2], dtype=torch.float64))
    assert (paths[1] - paths[0]).norm(dim=-1).max() <= FIRST + 1e-9
    assert values[-1] < 0.1 * values[0]
    assert len(proxies) == (3 if name == "proxy_anchor" else 0)
    if name == "triplet":
        x = paths[0].clone().requires_grad_()
        from similis.objective.losses.triplet import triplet

        (gradient,) = torch.autograd.grad(triplet(x, labels), [x])
        rate = FIRST / gradient.norm(dim=-1).max()
        assert torch.allclose(paths[1], torch.nn.functional.normalize(x - rate * gradient, dim=-1))


def test_every_figure_is_committed_in_both_schemes_and_on_the_page():
    page = (PICTURES.parent / "explained.md").read_text(encoding="utf-8")
    for name in FIGURES:
        assert f'src="pictures/explained/{name}.svg" alt="' in page, name
        light, dark = ((PICTURES / "explained" / f"{name}{end}.svg").read_text() for end in ("", "-dark"))
        assert "#0d1117" in dark
        assert "#0d1117" not in light
    for entry in losses:
        assert (PICTURES / "losses" / f"{entry.name}.svg").exists()
        assert (PICTURES / "losses" / f"{entry.name}-dark.svg").exists()
