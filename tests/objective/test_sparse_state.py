"""Sampled classes with ``torch.optim.SparseAdam``: rows that were not drawn stay as they are, in value and moments."""

import pytest
import torch

from benchmarks.rounds import peak_memory
from similis.objective.loss import loss
from similis.objective.wrappers.sampled_classes import SampledClasses

LABELS = torch.tensor([2, 0, 5, 2, 0, 2])
LOSSES = [("proxy_anchor", {}), ("softmax", {}), ("soft_triple", {"centers": 3})]


def built(name, options, sparse):
    made = loss(name, num_classes=40, dim=6, **options).double()
    return SampledClasses(made, 0.2, sparse=sparse), made.learned["proxies"]


def step(sampled, optimiser, seed):
    x = torch.randn(len(LABELS), 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    optimiser.zero_grad()
    sampled(x, LABELS).backward()
    touched = sampled.loss.learned["proxies"].grad
    optimiser.step()
    return touched


@pytest.mark.parametrize(("name", "options"), LOSSES)
def test_touched_rows_take_the_dense_step_and_others_none(name, options):
    # eps stands at another place in SparseAdam: behind the square root of the moment before its correction
    sparse, own = built(name, options, True)
    dense, all_rows = built(name, options, False)
    start = own.detach().clone()
    gradient = step(sparse, torch.optim.SparseAdam([own], lr=0.1, eps=1e-16), 0).coalesce()
    step(dense, torch.optim.Adam([all_rows], lr=0.1, eps=1e-16), 0)
    rows = gradient.indices()[0]
    assert len(rows) == 3 + 7  # the classes of the batch, a fifth of the 37 others
    assert torch.allclose(own[rows], all_rows[rows], rtol=1e-10)
    assert not torch.equal(own[rows], start[rows])
    others = torch.ones(40, dtype=torch.bool).index_fill_(0, rows, False)
    assert torch.equal(own[others], start[others])


def test_rows_and_moments_rest_until_they_are_drawn_again():
    sampled, own = built("proxy_anchor", {}, True)
    optimiser = torch.optim.SparseAdam([own], lr=0.1)
    for seed in range(3):
        step(sampled, optimiser, seed)
    state = optimiser.state[own]
    before = [t.detach().clone() for t in (own, state["exp_avg"], state["exp_avg_sq"])]
    rows = step(sampled, optimiser, 3).coalesce().indices()[0]
    others = torch.ones(40, dtype=torch.bool).index_fill_(0, rows, False)
    assert before[1][others].any()  # among the rows that rest are some with moments
    for old, new in zip(before, (own, state["exp_avg"], state["exp_avg_sq"]), strict=True):
        assert torch.equal(new[others], old[others])
        assert not torch.equal(new[rows], old[rows])


@pytest.mark.slow
def test_a_step_of_a_million_classes_adds_little():
    """1 % of a million classes: the gradient of all rows alone would be 512 MB."""
    rises = [peak_memory("benchmarks.loss_cases:sampled", "proxy_anchor", c, 128, 256, 0.01) for c in (62_500, 10**6)]
    assert max(rises) < 128e6
