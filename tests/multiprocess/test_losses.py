"""N processes compute what one process computes on the joined batch: every loss in each of its forms."""

from __future__ import annotations

import pytest
import torch

import similis
from similis.objective.context import distributed
from similis.registry import losses
from similis.values import UserError
from tests.multiprocess.agreement import assert_equal, differences
from tests.multiprocess.work import EVEN, UNEVEN, batch, network, objective, several, together
from tests.proof import SHAPES

NAMES = [entry.name for entry in losses]
ONE_OF_EACH = {name for name, _ in SHAPES}
SHAPED = [pytest.param(name, marks=() if name in ONE_OF_EACH else pytest.mark.slow) for name in NAMES]


def cases(name: str, **more: object) -> list[dict]:
    return [{"objective": {"name": name, "form": form}, **more} for form in losses.get(name).forms]


@pytest.mark.parametrize("name", NAMES)
def test_two_processes(two, name):
    assert_equal(two, [(case, counts) for case in cases(name) for counts in (EVEN[2], UNEVEN[2], (12, 0))])


@pytest.mark.parametrize("name", NAMES)
def test_four_processes(four, name):
    assert_equal(four, [(case, counts) for case in cases(name) for counts in (EVEN[4], UNEVEN[4])])


def test_one_word_under_distributed_data_parallel(two):
    work = [case for name in sorted(ONE_OF_EACH) for case in cases(name, ddp=True, word=True)]
    assert_equal(two, [(case, counts) for case in work for counts in (EVEN[2], UNEVEN[2], (12, 0))])


def test_one_word_on_four_processes(four):
    work = [case for name in NAMES for case in cases(name, ddp=True, word=True)]
    assert_equal(four, [(case, counts) for case in work for counts in (EVEN[4], UNEVEN[4])])


@pytest.mark.parametrize("kind", ["nested", "memory", "language"])
def test_one_word_within_wrappers(two, kind):
    case = {"objective": {"name": "multi_similarity", "form": "default", "kind": kind}, "word": True}
    assert_equal(two, [(case, UNEVEN[2])], steps=3)


def test_ranks_that_make_different_calls_are_told(two):
    with pytest.raises(UserError, match=r"rank \d computes (triplet|supcon) of \(4,\) float32, and rank \d something"):
        two.call(different_calls, ("supcon", "triplet"))


def different_calls(communicator, names):
    made = similis.loss(names[communicator.rank], distributed=True)
    return made(torch.randn(4, 4), torch.tensor([0, 0, 1, 1]))


@pytest.mark.parametrize("name", SHAPED)
def test_tiles(two, name):
    assert_equal(two, [(case, UNEVEN[2]) for case in cases(name, tile=(3, 2))])


def test_other_reductions(two):
    options = [("contrastive", "euclid2", {"reduction": r}) for r in ("balanced", "active", "mean", "anchor", "sum")]
    options += [("triplet", "euclid2", {"reduction": r}) for r in ("active", "mean", "sum")]
    options += [("proxy_repulsion", "samples", {"gram": "mean"}), ("margin", "per_class", {"nu": 0.1})]
    assert_equal(two, [({"objective": {"name": n, "form": f, **o}}, UNEVEN[2]) for n, f, o in options])


def test_the_comparison_sees_what_a_local_loss_gets_wrong(two):
    # without joined(), each process has the loss of its own rows: the value is another one
    case = {"objective": {"name": "multi_similarity", "form": "default"}, "local": True}
    got = two.call(together, case, EVEN[2])
    assert differences(case, got)["value"] > 1e-3
    assert differences(case, got)["gradient"] > 1e-3


def test_all_processes_report_one_value(two):
    work = [({"objective": {"name": name, "form": next(iter(losses.get(name).forms))}}, UNEVEN[2], 1) for name in NAMES]
    first, second = two.call(several, work)
    for (one,), (other,), name in zip(first, second, NAMES, strict=True):
        assert torch.equal(one[0], other[0]), name


def test_fully_sharded_network(two):
    # FSDP2 averages gradients as DDP does; each process holds a piece of every weight
    for name in ("multi_similarity", "proxy_anchor", "arcface"):
        case = {"objective": {"name": name, "form": "default"}}
        for found in two.call(fully_sharded, case, UNEVEN[2]):
            gaps = differences(case, [[found]])
            assert max(gaps.values()) <= 1e-10, (name, gaps)


def fully_sharded(communicator, case, counts):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    made = objective(seed=0, dtype=torch.float64, **case["objective"])
    network_ = fully_shard(network(0, torch.float64), mesh=init_device_mesh("cpu", (communicator.world,)))
    inputs, labels, _ = (part.split(counts)[communicator.rank] for part in batch(0))
    with distributed(communicator):
        value = made(network_(inputs), labels)
    value.backward()
    learned = [p.grad for p in made.parameters()]
    return [value.detach(), *(p.grad.full_tensor() for p in network_.parameters()), *learned]
