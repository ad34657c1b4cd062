"""Language guidance: oracle, compiled, combined."""

import pytest
import torch

from similis.objective.language import language
from similis.objective.loss import loss
from similis.objective.wrappers.guided import Guided
from similis.values import UserError
from tests.batches import A_LABELS, A, random_batch
from tests.plain import dot, lse, mean, on_sphere

TEXT = torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]], dtype=torch.float64)
NAMES = TEXT @ TEXT.T


def oracle(x, labels, names, shift=1.0, temperature=1.0, forward=True):
    x, rows, own = on_sphere(x), [], torch.tensor(1.0 + shift, dtype=torch.float64)
    for i in range(len(x)):
        image, words = [], []
        for j in range(len(x)):
            together = labels[i] == labels[j]
            image.append((own if together else dot(x[i], x[j])) / temperature)
            words.append((own if together else names[labels[i], labels[j]] + shift) / temperature)
        p = [v - lse(image) for v in image]
        q = [v - lse(words) for v in words]
        first, second = (p, q) if forward else (q, p)
        rows.append(sum(a.exp() * (a - b) for a, b in zip(first, second, strict=True)))
    return temperature**2 * mean(rows)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("forward", [True, False])
def test_oracle(seed, forward):
    x, labels = random_batch(seed)
    names = torch.rand(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    way = "image_to_language" if forward else "language_to_image"
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    value = language(mine, labels, names, shift=0.7, temperature=0.4, direction=way)
    truth = oracle(theirs, labels.tolist(), names, 0.7, 0.4, forward)
    assert value.item() == pytest.approx(truth.item(), abs=1e-10)
    (got,), (want,) = torch.autograd.grad(value, mine), torch.autograd.grad(truth, theirs)
    assert (got - want).abs().max() < 1e-10


def test_one_class_gives_a_zero_with_a_gradient_path():
    x = A.clone().requires_grad_()
    value = language(x, torch.zeros(6, dtype=torch.int64), NAMES)
    value.backward()
    assert value.item() == pytest.approx(0.0, abs=1e-12)
    assert torch.isfinite(x.grad).all()


def test_gradcheck_and_compile():
    x, labels = random_batch(2, duplicates=False)
    names = torch.eye(4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda v: language(v, labels, names), x.requires_grad_())
    compiled = torch.compile(language, fullgraph=True, backend="aot_eager")
    assert compiled(x, labels, names).item() == pytest.approx(language(x, labels, names).item(), abs=1e-12)


def test_combines_with_a_loss_by_weight_and_by_class_ids():
    ids = {0: -7, 1: 2**60, 2: 12}
    order = sorted(ids, key=lambda k: ids[k])
    names = NAMES[order][:, order]
    labels = torch.tensor([ids[int(y)] for y in A_LABELS])
    base = loss("triplet")
    both = Guided(base, names, class_ids=ids.values(), weight=7.5)
    expected = base(A, labels).item() + 7.5 * language(A, A_LABELS, NAMES).item()
    assert both(A, labels).item() == pytest.approx(expected, abs=1e-12)


def test_errors_name_what_is_allowed():
    with pytest.raises(UserError, match="square matrix"):
        Guided(loss("triplet"), torch.zeros(2, 3))
