"""Proxy repulsion: oracle, worked numbers, tight frames, memory, extremes. The peer library has no such loss."""

import pytest
import torch

from similis.objective.losses.proxy_repulsion import proxy_repulsion
from similis.objective.references import Block, batch_references
from similis.values import UserError
from tests.batches import A_LABELS, B_LABELS, PROXIES_A, PROXIES_B, A, B, random_batch
from tests.objective.losses.test_proxy_anchor import parts
from tests.plain import ZERO, dot, lse1, mean, on_sphere


def oracle(x, labels, learned, options):
    x, proxies = on_sphere(x), on_sphere(learned["proxies"])
    scale, margin = options["scale"], options["margin_cos"]

    def alike(a, b):
        if options["form"] != "samples":
            return dot(a, b)
        seen = sum((dot(a, row) * dot(row, b) for row in x), ZERO)
        return seen / len(x) if options["gram"] == "mean" else seen

    pull, push = parts(x, labels, proxies, scale, margin)
    between = mean(
        [lse1([scale * (alike(a, b) + margin) for d, b in enumerate(proxies) if d != c]) for c, a in enumerate(proxies)]
    )
    return pull + ((between + push) / 2 if options["form"] == "hybrid" else between)


ORACLES = {"samples": oracle, "samples_mean": oracle, "proxies": oracle, "hybrid": oracle}
PULL_A, PULL_B = 1.44359042, 0.04525315


WORKED = [
    ((A, A_LABELS, PROXIES_A), {"form": "proxies"}, 19.94937396),
    ((A, A_LABELS, PROXIES_A), {"form": "samples"}, 60.03102665),
    ((B, B_LABELS, PROXIES_B), {"form": "proxies"}, 23.81445666),
    ((B, B_LABELS, PROXIES_B), {"form": "samples"}, 61.59004126),
    ((A, A_LABELS, PROXIES_A), {"form": "hybrid"}, PULL_A + (18.50578354 + 21.75250568) / 2),
    ((B, B_LABELS, PROXIES_B), {"form": "hybrid"}, PULL_B + (23.76920351 + 33.35128620) / 2),
]


def test_on_a_tight_frame_both_forms_agree():
    x = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))).Q
    labels = torch.tensor([0, 1, 2, 3, 3])
    proxies = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    values = [float(proxy_repulsion(x, labels, proxies, form=form)) for form in ("samples", "proxies")]
    assert values[0] == pytest.approx(values[1], abs=1e-10)


def test_a_memory_joins_the_pull_and_keeps_the_size_of_the_gram():
    """A memory that repeats the batch leaves G as it is; the pull counts its samples once more."""
    x, labels = random_batch(1, duplicates=False)
    proxies = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    ids = torch.arange(11)
    references = batch_references(x, labels, memory=Block(x.clone(), labels, own=ids, ids=ids + 100))
    doubled = {"form": "samples", "gram": "sum", "scale": 32.0, "margin_cos": 0.1}
    unit, w = on_sphere(x), on_sphere(proxies)
    once = parts(unit, labels.tolist(), w, 32.0, 0.1)[0]
    twice = parts(torch.cat([unit, unit]), labels.tolist() * 2, w, 32.0, 0.1)[0]
    plain = oracle(x, labels.tolist(), {"proxies": proxies}, doubled)
    value = proxy_repulsion(x, labels, proxies, references=references)
    assert float(value) == pytest.approx(float(plain - once + twice), abs=1e-10)


def test_many_aligned_samples_overflow_nothing():
    """G reaches 180: an exponent of 5,763 has no float32 without log-sum-exp."""
    x = torch.ones(180, 8, requires_grad=True)
    proxies = torch.ones(4, 8, requires_grad=True)
    value = proxy_repulsion(x, torch.arange(180) % 4, proxies)
    value.backward()
    assert value.item() == pytest.approx(32 * 180.1 + 1.0986, rel=1e-4)
    assert x.grad.isfinite().all()
    assert proxies.grad.isfinite().all()


def test_the_push_is_a_mean_over_all_proxies_of_all_others():
    x, labels = A[:2], A_LABELS[:2]  # classes 1 and 2 have no sample; their proxies push all the same
    value = proxy_repulsion(x, labels, PROXIES_A, form="proxies") - proxy_repulsion(
        x, labels, PROXIES_A[:1], form="proxies"
    )
    assert float(value) == pytest.approx(18.50578354, abs=1e-6)


def test_unknown_words_are_answered_with_the_nearest():
    with pytest.raises(UserError, match="samples"):
        proxy_repulsion(A, A_LABELS, PROXIES_A, form="sample")
    with pytest.raises(UserError, match="mean"):
        proxy_repulsion(A, A_LABELS, PROXIES_A, gram="means")
