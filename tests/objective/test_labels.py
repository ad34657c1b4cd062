"""Labels: which types are accepted, and that a compiled graph refuses unknown ones as a plain call does."""

import pytest
import torch

import similis.objective.losses  # noqa: F401 - fills the registry
from similis.objective.batch import check_labels
from similis.objective.loss import loss
from similis.objective.wrappers.guided import Guided
from similis.registry import losses
from similis.values import UserError
from tests.batches import random_batch

X, LABELS = random_batch(0)
IDS = [-4, 9, 2**40, 2**53 + 1]
LEARNING = [entry.name for entry in losses if loss(entry.name, num_classes=4, dim=5).learned]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (torch.zeros(10, dtype=torch.int64), r"shape \(10,\) for 11 embeddings"),
        (torch.zeros(11, 1, 1, dtype=torch.int64), r"shape \(11, 1, 1\)"),
        (torch.tensor(3), r"shape \(\)"),
        (torch.zeros(11), "torch.float32; class ids are integers"),
        (torch.zeros(11, dtype=torch.complex64), "complex64; class ids are integers"),
        (torch.zeros(10, 11), "relation has 10 rows for 11 embeddings"),
    ],
)
def test_labels_that_are_none_are_refused(labels, words):
    with pytest.raises(UserError, match=words):
        check_labels(labels, 11)


def compiled(function, backend="eager"):
    return torch.compile(function, fullgraph=True, backend=backend)


def replace_one(labels, label):
    return torch.cat([labels[:-1], torch.tensor([label])])


@pytest.mark.parametrize("name", [*LEARNING, "language"])
@pytest.mark.usefixtures("fresh_compiler")
def test_a_compiled_loss_refuses_unknown_class_ids(name):
    if name == "language":
        made = Guided(loss("contrastive"), torch.eye(4).double(), class_ids=IDS)
    else:
        made = loss(name, class_ids=IDS, dim=5).double()
    fast, known = compiled(made), torch.tensor(IDS)[LABELS]
    assert fast(X, known).item() == pytest.approx(made(X, known).item(), abs=1e-12)
    for strange in (10, -5, 2**53 + 2):
        with pytest.raises(UserError, match=rf"labels \[{strange}\] are not among the 4 class_ids"):
            fast(X, replace_one(known, strange))


# samples with classes, classes with samples, a boundary for each class
@pytest.mark.parametrize(("name", "options"), [("normface", {}), ("proxy_anchor", {}), ("margin", {"per_class": True})])
@pytest.mark.usefixtures("fresh_compiler")
def test_a_compiled_loss_refuses_labels_without_a_proxy(name, options):
    made = loss(name, num_classes=4, dim=5, **options).double()
    fast = compiled(made)
    assert fast(X, LABELS).item() == pytest.approx(made(X, LABELS).item(), abs=1e-12)
    for strange in (4, -1):
        with pytest.raises(UserError, match="there are proxies for classes 0 to 3; pass class_ids="):
            fast(X, replace_one(LABELS, strange))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("fresh_compiler")
def test_a_lowered_graph_keeps_the_check_and_its_gradients(backend):
    made = loss("proxy_anchor", class_ids=IDS, dim=5).double()
    fast, known, x = compiled(made, backend), torch.tensor(IDS)[LABELS], X.clone().requires_grad_()
    got = torch.autograd.grad(fast(x, known), x)[0]
    assert torch.allclose(got, torch.autograd.grad(made(x, known), x)[0], atol=1e-12)
    with pytest.raises(UserError, match=r"labels \[10\] are not among the 4 class_ids"):
        fast(x, replace_one(known, 10))
