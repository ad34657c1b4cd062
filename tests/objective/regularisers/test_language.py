"""Language guidance: oracle, worked numbers, closed-form gradient, the mask that makes the shift matter."""

import pytest
import torch

from similis.objective.loss import loss
from similis.objective.regularisers.language import language
from similis.objective.wrappers.combined import Combined, regulariser
from similis.registry import regularisers
from similis.values import UserError
from tests.batches import A_LABELS, B_LABELS, A, B, random_batch
from tests.plain import dot, lse, mean, on_sphere

TEXT = torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]], dtype=torch.float64)
NAMES = TEXT @ TEXT.T


def oracle(x, labels, names, shift=1.0, temperature=1.0, forward=True, masked=True):
    x, rows = on_sphere(x), []
    for i in range(len(x)):
        image, words = [], []
        for j in range(len(x)):
            together = masked and labels[i] == labels[j]
            image.append(
                (torch.tensor(1.0 + shift, dtype=torch.float64) if together else dot(x[i], x[j])) / temperature
            )
            words.append(
                (torch.tensor(1.0 + shift, dtype=torch.float64) if together else names[labels[i], labels[j]] + shift)
                / temperature
            )
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


@pytest.mark.parametrize(
    ("x", "labels", "shift", "way", "expected"),
    [
        (A, A_LABELS, 0.0, "image_to_language", 0.09255829),
        (A, A_LABELS, 1.0, "image_to_language", 0.28278280),
        (A, A_LABELS, 5.0, "image_to_language", 0.70992727),
        (A, A_LABELS, 1.0, "language_to_image", 0.37426283),
        (B, B_LABELS, 1.0, "image_to_language", 0.18897355),
    ],
)
def test_worked_numbers(x, labels, shift, way, expected):
    assert float(language(x, labels, NAMES, shift=shift, direction=way)) == pytest.approx(expected, abs=1e-6)


def test_without_the_mask_the_shift_would_do_nothing():
    """Equation 29 as printed gives one number for every shift; ours does not."""
    printed = [float(oracle(A, A_LABELS.tolist(), NAMES, shift, masked=False)) for shift in (0.0, 1.0, 5.0)]
    assert printed == pytest.approx([0.08464011] * 3, abs=1e-6)
    assert float(language(A, A_LABELS, NAMES, shift=0.0)) != pytest.approx(
        float(language(A, A_LABELS, NAMES, shift=1.0)), abs=1e-3
    )


def test_gradient_on_similarities_is_the_closed_form():
    """dL/dS_ij = (T/B) p_ij (log(p_ij/q_ij) - KL_i) off the mask, through S = x x^T on the sphere."""
    x = on_sphere(random_batch(4, duplicates=False)[0]).requires_grad_()
    labels = random_batch(4)[1]
    names = torch.rand(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    temperature, shift, same = 0.5, 1.0, labels[:, None] == labels[None, :]
    (got,) = torch.autograd.grad(language(x, labels, names, temperature=temperature, shift=shift), x)
    s = (x @ x.T).detach()
    p = torch.where(same, 1 + shift, s).div(temperature).log_softmax(1)
    q = torch.where(same, 1 + shift, names[labels][:, labels] + shift).div(temperature).log_softmax(1)
    kl = (p.exp() * (p - q)).sum(1, keepdim=True)
    on_s = torch.where(same, 0.0, temperature / len(x) * p.exp() * (p - q - kl))
    free = (on_s + on_s.T) @ x.detach()
    tangent = free - (free * x.detach()).sum(1, keepdim=True) * x.detach()
    assert torch.allclose(got, tangent, atol=1e-12)


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
    both = Combined(base, [(7.5, regulariser("language", class_similarity=names, class_ids=ids.values()))])
    expected = base(A, labels).item() + 7.5 * language(A, A_LABELS, NAMES).item()
    assert both(A, labels).item() == pytest.approx(expected, abs=1e-12)


def test_errors_name_what_is_allowed():
    with pytest.raises(UserError, match="square matrix"):
        regulariser("language", class_similarity=torch.zeros(2, 3))
    with pytest.raises(UserError, match="did you mean 'shift'"):
        regulariser("language", class_similarity=NAMES, shft=1.0)
    with pytest.raises(UserError, match="did you mean 'language'"):
        regularisers.get("languag")
