"""Sampled classes in two processes: drawn by each among its own, or by all alike where every one has all."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import pytest
import torch

from similis.objective.context import current_context, distributed, use_context
from similis.objective.loss import Loss, loss
from similis.objective.sharding import shard
from similis.objective.wrappers.sampled_classes import SampledClasses
from similis.registry import losses
from tests.batches import random_learned
from tests.multiprocess.costs import traffic
from tests.proof import forms

CLASSES, DIM = 9, 5  # the processes own classes 0 to 4 and 5 to 8
LABELS = torch.tensor([2, 0, 5, 2, 0, 2, 5])
PRESENT, OTHERS = torch.tensor([0, 2, 5]), ((1, 3, 4), (6, 7, 8))
PARTS = (5, 2)
SAMPLED = [(entry.name, form) for entry, form in forms() if entry.class_sampling != "none"]
RELATION = torch.zeros(len(LABELS), CLASSES)
RELATION[torch.arange(len(LABELS)), LABELS] = 1.0
RELATION[0, 5], RELATION[1, 3], RELATION[2, 2], RELATION[5, 7] = 1.0, -1.0, -1.0, -1.0


def built(name: str, form: str) -> Loss:
    made = loss(name, num_classes=CLASSES, dim=DIM, **losses.get(name).forms[form])
    for key, value in random_learned({key: tuple(value.shape) for key, value in made.learned.items()}, 0).items():
        made.learned[key].data = value.to(torch.float64)
    return made


def samples() -> torch.Tensor:
    return torch.randn(len(LABELS), DIM, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def answer(value: torch.Tensor, x: torch.Tensor, vectors: torch.Tensor) -> list[torch.Tensor]:
    """Value and gradients of samples and class vectors."""
    found = torch.autograd.grad(value, [x, vectors])
    return [value.detach(), *(g.to_dense() if g.is_sparse else g for g in found)]


def alone(name: str, form: str, labels: torch.Tensor) -> list[torch.Tensor]:
    """The loss over all classes in one process."""
    made, x = built(name, form), samples().requires_grad_()
    return answer(made(x, labels), x, made.learned["proxies"])


def by_hand(name: str, form: str, drawn: tuple[tuple[int, ...], ...]) -> list[torch.Tensor]:
    """A draw in one process: each class that is drawn counts as those of its process that it stands for."""
    made, x = built(name, form), samples().requires_grad_()
    number = {c: len(others) / len(own) for own, others in zip(drawn, OTHERS, strict=True) for c in own}
    kept = torch.tensor(sorted([*PRESENT.tolist(), *number]))
    weights = torch.tensor([number.get(c, 1.0) for c in kept.tolist()], dtype=torch.float64)
    vectors = made.learned["proxies"]
    with use_context(replace(current_context(), class_weights=weights)):
        value = made.of(x, torch.searchsorted(kept, LABELS), {"proxies": vectors[kept]})
    return answer(value, x, vectors)


def joined_answer(communicator, value, x, made) -> list[torch.Tensor]:
    """As :func:`answer`, of all processes: gradients of samples are of W times the loss."""
    own, shares = answer(value, x, made.learned["proxies"])[1:]
    whole = communicator.gather(own, PARTS) / communicator.world
    if made.classes is None:
        communicator.average([shares])
    return [value.detach(), whole, shares if made.classes is None else made.classes.gather(shares)]


def own(communicator, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x, mine = (torch.split(part, list(PARTS))[communicator.rank] for part in (samples(), labels))
    return x.requires_grad_(), mine


def over_draws(communicator, work: list[tuple[str, str, list, bool]]) -> list[list[list[torch.Tensor]]]:
    """For each loss its answer to each of the draws, which are given for both processes."""
    found = []
    for name, form, draws, related in work:
        made = SampledClasses(shard(built(name, form), communicator), 0.5)
        x, labels = own(communicator, RELATION if related else LABELS)
        answers = []
        for drawn in draws:
            with distributed(communicator):
                value = made.over(x, labels, PRESENT, torch.tensor(drawn[communicator.rank]))
            answers.append(joined_answer(communicator, value, x, made.loss))
        found.append(answers)
    return found


def called(communicator, cases: list[tuple[str, str]], share: float, divided: bool) -> list[list[torch.Tensor]]:
    """The second of two calls for each of the losses."""
    found = []
    for name, form in cases:
        made = built(name, form)
        made = SampledClasses(shard(made, communicator) if divided else made, share, seed=4, sparse=divided)
        x, labels = own(communicator, LABELS)
        with distributed(communicator):
            made(x, labels)
            value = made(x, labels)
        found.append(joined_answer(communicator, value, x, made.loss))
    return found


def assert_close(got: list[torch.Tensor], want: list[torch.Tensor], what: object) -> None:
    for a, b in zip(got, want, strict=True):
        assert float((a - b).abs().max()) <= 1e-11 * max(1.0, float(b.abs().max())), what


def test_all_classes_are_the_divided_loss(two):
    for answers in two.call(called, SAMPLED, 1.0, True):
        for case, got in zip(SAMPLED, answers, strict=True):
            assert_close(got, alone(*case, LABELS), case)


@pytest.mark.parametrize("numbers", [(1, 2), (2, 2), (2, 1)])
@pytest.mark.parametrize("related", [False, True])
def test_the_mean_over_all_draws_is_proxy_anchor(two, numbers, related):
    draws = list(product(*(combinations(o, n) for o, n in zip(OTHERS, numbers, strict=True))))
    want = alone("proxy_anchor", "default", RELATION if related else LABELS)
    for (answers,) in two.call(over_draws, [("proxy_anchor", "default", draws, related)]):
        values = [one[0].item() for one in answers]
        assert max(values) - min(values) > 1e-3  # the draws do differ
        assert_close([torch.stack(parts).mean(0) for parts in zip(*answers, strict=True)], want, numbers)


def test_a_draw_is_that_of_one_process_with_these_weights(two):
    draws = [((1, 4), (7,)), ((3,), (6, 8))]
    for answers in two.call(over_draws, [(*case, draws, False) for case in SAMPLED]):
        for case, found in zip(SAMPLED, answers, strict=True):
            for drawn, got in zip(draws, found, strict=True):
                assert_close(got, by_hand(*case, drawn), (case, drawn))


def test_the_mean_of_a_logarithm_stays_too_small(two):
    gaps = []
    for numbers in ((1, 1), (2, 2), (3, 3)):
        draws = list(product(*(combinations(o, n) for o, n in zip(OTHERS, numbers, strict=True))))
        ((answers,), _) = two.call(over_draws, [("softmax", "default", draws, False)])
        gaps.append(float(alone("softmax", "default", LABELS)[0] - torch.stack([one[0] for one in answers]).mean()))
    assert gaps[0] > gaps[1] > 1e-6
    assert abs(gaps[2]) < 1e-12


def test_each_process_draws_among_its_own_and_all_report_one_value(two):
    first, second = two.call(called, SAMPLED, 0.5, True)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one[0], other[0])
        trained = one[2].flatten(1).ne(0).any(1).nonzero()[:, 0].tolist()
        for others in OTHERS:  # half of three others is two
            assert len(set(trained) & set(others)) == 2
        assert set(PRESENT.tolist()) <= set(trained)


def test_whole_classes_are_drawn_as_in_one_process(two):
    for answers in two.call(called, SAMPLED, 0.5, False):
        for (name, form), got in zip(SAMPLED, answers, strict=True):
            made, x = SampledClasses(built(name, form), 0.5, seed=4), samples().requires_grad_()
            made(x, LABELS)
            assert_close(got, answer(made(x, LABELS), x, made.loss.learned["proxies"]), name)


def gathered(communicator) -> int:
    made = SampledClasses(shard(built("normface", "default"), communicator), 0.5)
    x, labels = own(communicator, LABELS)
    before = communicator.bytes["gather"]
    with distributed(communicator):
        made(x, labels).backward()
    return communicator.bytes["gather"] - before


def test_bytes_of_a_step(two):
    plain = traffic("divided_classes", counts=PARTS, dim=DIM, number_bytes=8).gather
    kept = 4  # the first process: two classes of the batch and two of its three others
    assert two.call(gathered) == [plain + 32 + 8 * max(PARTS) + 8 * kept] * 2
