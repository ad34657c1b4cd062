"""Callers reuse their buffers: what they write into them after a call must not reach a loss that has seen them.

Each test runs twice, once on buffers that are overwritten as soon as a call returns, once on fresh copies.
"""

import copy

import pytest
import torch

from similis.engine.process_group import join_group
from similis.objective.context import distributed
from similis.objective.loss import loss
from similis.objective.references import Block, batch_references
from similis.objective.sharding import shard
from similis.objective.wrappers.guided import Guided
from similis.values import Pairs, Triplets
from tests.hostile.attacks import BACKENDS, batch, every_backend, every_form, same
from tests.hostile.wrapped import WRAPPERS, proxies
from tests.proof import CLASSES, build

BATCHES = 3


def spoil(*buffers):
    """Write other numbers of the same type into tensors, in place."""
    with torch.no_grad():
        for buffer in buffers:
            buffer.copy_(buffer.flip(0) * 3 + 1 if buffer.is_floating_point() else (buffer.flip(0) + 1) % CLASSES)


def values(made, *, reuse, ids=False):
    """Values and gradients of several batches, in one buffer that is overwritten or each in tensors of its own."""
    buffers, found = [part.clone() for part in batch()], []
    image_ids = torch.arange(11)
    for seed in range(BATCHES):
        x, labels = batch(seed)
        numbers = torch.arange(11) + 5 * seed
        if reuse:
            with torch.no_grad():
                for buffer, new in zip((*buffers, image_ids), (x, labels, numbers), strict=True):
                    buffer.copy_(new)
            x, labels, numbers = *buffers, image_ids
        leaf = x.detach().requires_grad_()  # shares the buffer's memory
        value = made(leaf, labels, image_ids=numbers) if ids else made(leaf, labels)
        found += [value.detach(), *torch.autograd.grad(value, [leaf], allow_unused=True)]
        if reuse:
            spoil(x, labels, numbers)
    return found


@every_backend
@pytest.mark.parametrize(("wrapper", "ids"), [(name, ids) for name in WRAPPERS for ids in {False, "memory" in name}])
def test_a_wrapper_keeps_nothing_of_the_caller(wrapper, ids, backend):
    with BACKENDS[backend]():
        got, want = (values(WRAPPERS[wrapper](), reuse=reuse, ids=ids) for reuse in (True, False))
    assert same(got, want)


def late_gradient(value, leaf, *spoiled):
    """The gradient when buffers change between the passes; None where autograd notices that and refuses."""
    spoil(*spoiled)
    try:
        return torch.autograd.grad(value, leaf)[0]
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return None


def assert_no_wrong_gradient(made, arguments, spoiled):
    """``arguments(leaf)`` are those of a call of the loss, ``spoiled(arguments)`` the buffers that change after it."""
    leaves = [batch()[0].requires_grad_() for _ in range(2)]
    given = [arguments(leaf) for leaf in leaves]
    values = [made(leaf, *some[0], **some[1]) for leaf, some in zip(leaves, given, strict=True)]
    late = late_gradient(values[0], leaves[0], *spoiled(given[0]))
    assert late is None or torch.equal(late, torch.autograd.grad(values[1], leaves[1])[0])


def in_order():
    """Labels in rising order: nothing has to be moved, so nothing is copied by chance."""
    return batch()[1].sort().values


@every_form
@every_backend
def test_labels_that_change_before_the_backward_pass_make_no_wrong_gradient(entry, form, backend):
    with BACKENDS[backend]():
        made = build(entry, form, dtype=torch.float32)
        assert_no_wrong_gradient(made, lambda leaf: ((in_order(),), {}), lambda given: given[0])


@every_backend
@pytest.mark.parametrize("name", ["contrastive", "supcon", "multi_similarity", "triplet"])
def test_references_that_change_before_the_backward_pass_make_no_wrong_gradient(name, backend):
    def arguments(leaf):
        memory = Block(batch(1)[0], in_order(), own=torch.arange(11) + 4, ids=torch.arange(11))
        return (in_order(),), {"references": batch_references(leaf, in_order(), memory)}

    def spoiled(given):
        live, memory = given[1]["references"].blocks
        return [live.labels, memory.labels, memory.own, memory.ids]

    with BACKENDS[backend]():
        assert_no_wrong_gradient(loss(name), arguments, spoiled)


@every_backend
@pytest.mark.parametrize("options", [{"name": "contrastive", "geometry": "euclid2"}, {"name": "supcon"}])
def test_a_relation_that_changes_before_the_backward_pass_makes_no_wrong_gradient(options, backend):
    def arguments(leaf):
        labels = in_order()
        return ((labels[:, None] == labels).float() * 0.7,), {}

    with BACKENDS[backend]():
        assert_no_wrong_gradient(loss(**options), arguments, lambda given: given[0])


@every_backend
@pytest.mark.parametrize("name", ["contrastive", "multi_similarity", "triplet", "margin"])
def test_tuples_that_change_before_the_backward_pass_make_no_wrong_gradient(name, backend):
    made = loss(name)

    def arguments(leaf):
        numbers = [torch.tensor([0, 1, 2, 3]) + 2 * i for i in range(4)]
        return (in_order(),), {"tuples": Pairs(*numbers) if made.entry.accepts == "pairs" else Triplets(*numbers[:3])}

    with BACKENDS[backend]():
        assert_no_wrong_gradient(made, arguments, lambda given: given[1]["tuples"])


@pytest.fixture(scope="module")
def only_rank(tmp_path_factory):
    """The communicator of a real process group of one."""
    meeting = tmp_path_factory.mktemp("group") / "meeting"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANK", "0")
        patch.setenv("WORLD_SIZE", "1")
        with join_group("cpu", store=meeting, timeout=60.0) as communicator:
            yield communicator


@pytest.mark.parametrize("wrapper", [*WRAPPERS, "sharded"])
def test_a_joined_batch_keeps_nothing_of_the_caller(wrapper, only_rank):
    with distributed(only_rank):
        fresh = WRAPPERS.get(wrapper, lambda: shard(proxies(), only_rank))
        assert same(values(fresh(), reuse=True), values(fresh(), reuse=False))


def test_a_guided_loss_keeps_its_own_class_similarities():
    similar = torch.eye(CLASSES).add(0.1)
    term = Guided(loss("triplet"), similar)
    want = term(*batch())
    spoil(similar)
    assert torch.equal(term(*batch()), want)


@pytest.mark.parametrize("wrapper", list(WRAPPERS))
def test_a_state_that_was_taken_or_loaded_stays_as_it_is(wrapper):
    going, resumed = WRAPPERS[wrapper](), WRAPPERS[wrapper]()
    for seed in (0, 1):
        going(*batch(seed))
    held = going.state_dict()
    kept = copy.deepcopy(held)
    for seed in (2, 3):
        going(*batch(seed))
    for key, value in kept.items():
        assert str(held[key]) == str(value), f"{key} changed after it was taken"
    resumed.load_state_dict(held)
    for value in held.values():  # the waiting batch of a memory is a dictionary
        spoil(*(value.values() if isinstance(value, dict) else [value]))
    other = WRAPPERS[wrapper]()
    other.load_state_dict(kept)
    assert torch.equal(resumed(*batch(2)), other(*batch(2)))
