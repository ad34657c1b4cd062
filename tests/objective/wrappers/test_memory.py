"""Cross-batch memory: what anchors see, when rows enter, what the checkpoint holds."""

import io

import pytest
import torch

from similis.objective.context import dense, tiles
from similis.objective.loss import loss
from similis.objective.wrappers.memory import CrossBatchMemory
from similis.values import UserError
from tests.batches import random_batch
from tests.plain import dot, hinge, mean, number, on_sphere


def plain_triplet(x, labels, ids, older, older_labels, older_ids, margin=0.1):
    """Triplets of batch anchors over batch and memory, by loops."""
    x, older = on_sphere(x), on_sphere(older)
    values = []
    for a in range(len(x)):
        columns = [(x[j], labels[j]) for j in range(len(x)) if j != a]
        columns += [(older[j], older_labels[j]) for j in range(len(older)) if older_ids[j] != ids[a]]
        for p in [c for c, y in columns if y == labels[a]]:
            for n in [c for c, y in columns if y != labels[a]]:
                values.append(hinge(dot(x[a], n) - dot(x[a], p) + margin))
    return mean([v for v in values if number(v) > 0])


def test_the_second_batch_sees_the_first_without_itself():
    (first, y1), (second, y2) = random_batch(0), random_batch(1)
    ids1, ids2 = torch.arange(11), torch.arange(5, 16)
    remembering = CrossBatchMemory(loss("triplet"), size=100, dim=5).double()
    remembering(first, y1, image_ids=ids1)
    x = second.clone().requires_grad_()
    value = remembering(x, y2, image_ids=ids2)
    theirs = second.clone().requires_grad_()
    truth = plain_triplet(theirs, y2.tolist(), ids2.tolist(), first, y1.tolist(), ids1.tolist())
    assert value.item() == pytest.approx(truth.item(), abs=1e-10)
    (got,), (want,) = torch.autograd.grad(value, x), torch.autograd.grad(truth, theirs)
    assert (got - want).abs().max() < 1e-10


def test_rows_without_ids_are_all_seen():
    (first, y1), (second, y2) = random_batch(0), random_batch(1)
    remembering = CrossBatchMemory(loss("triplet"), size=100, dim=5).double()
    remembering(first, y1)
    truth = plain_triplet(second, y2.tolist(), [-2] * 11, first, y1.tolist(), [-1] * 11)
    assert remembering(second, y2).item() == pytest.approx(truth.item(), abs=1e-10)


def test_the_ring_keeps_the_newest_rows():
    remembering = CrossBatchMemory(loss("triplet"), size=5, dim=1)
    for start in range(0, 12, 3):
        remembering.remember(torch.arange(start, start + 3.0)[:, None], torch.zeros(3), torch.arange(start, start + 3))
    assert sorted(remembering.vectors[:, 0].tolist()) == [7, 8, 9, 10, 11]
    assert len(remembering) == 5
    remembering.remember(torch.arange(20, 27.0)[:, None], torch.zeros(7), torch.arange(20, 27))
    assert sorted(remembering.ids.tolist()) == [22, 23, 24, 25, 26]


def test_it_is_off_for_the_first_batches_and_in_evaluation_nothing_enters():
    x, labels = random_batch(0)
    plain, remembering = loss("triplet"), CrossBatchMemory(loss("triplet"), size=50, dim=5, start=2).double()
    values = [remembering(x + i, labels).item() for i in range(3)]
    assert values[:2] == [plain(x, labels).item(), plain(x + 1, labels).item()]
    assert values[2] != pytest.approx(plain(x + 2, labels).item(), abs=1e-9)
    held = len(remembering.eval())
    remembering(x, labels)
    remembering(x, labels)
    assert len(remembering) == held


def test_checkpoint_continues_as_if_never_stopped():
    batches = [random_batch(seed) for seed in range(5)]
    going = CrossBatchMemory(loss("triplet"), size=30, dim=5).double()
    for x, labels in batches[:3]:
        going(x, labels)
    file = io.BytesIO()
    torch.save(going.state_dict(), file)
    file.seek(0)
    resumed = CrossBatchMemory(loss("triplet"), size=30, dim=5).double()
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for x, labels in batches[3:]:
        assert going(x, labels).item() == resumed(x, labels).item()


def test_labels_of_any_size_with_class_vectors():
    ids = [-5, 3, 2**54 + 1, 2**54 + 3]
    x, rows = random_batch(0)
    labels = torch.tensor(ids)[rows]
    named = CrossBatchMemory(loss("proxy_anchor", class_ids=ids, dim=5), size=50, dim=5).double()
    plain = CrossBatchMemory(loss("proxy_anchor", num_classes=4, dim=5), size=50, dim=5).double()
    for _ in range(2):
        assert named(x, labels).item() == plain(x, rows).item()


def test_a_loss_without_samples_as_references_is_refused():
    with pytest.raises(UserError, match="cannot use a memory"):
        CrossBatchMemory(loss("arcface", num_classes=4, dim=5), size=5, dim=5)


@pytest.mark.parametrize("context", [dense(), tiles(3, 4)], ids=["dense", "tiles"])
def test_rows_are_written_in_place(context):
    """A million rows are not copied at each step, though the value of the last step is still held."""
    remembering = CrossBatchMemory(loss("supcon"), size=50, dim=5).double()
    batches = [random_batch(seed) for seed in range(4)]
    with context:
        for x, labels in batches[:3]:
            value = remembering(x.requires_grad_(), labels)
            value.backward()
        place = remembering.vectors.data_ptr()
        remembering(batches[3][0], batches[3][1])
        assert remembering.vectors.data_ptr() == place


@pytest.mark.parametrize("context", [dense, lambda: tiles(3, 4)], ids=["dense", "tiles"])
def test_a_late_backward_pass_sees_the_rows_of_its_time(context):
    (x, labels), (later, _) = random_batch(0), random_batch(1)
    gradients = []
    for wait in (False, True):
        remembering = CrossBatchMemory(loss("supcon"), size=11, dim=5).double()
        own = x.clone().requires_grad_()
        with context():
            remembering(later, labels)
            value = remembering(own, labels)
            if wait:  # the ring is full: this batch overwrites every row
                remembering(x + 1, labels)
        value.backward()
        gradients.append(own.grad)
    assert torch.equal(*gradients)
