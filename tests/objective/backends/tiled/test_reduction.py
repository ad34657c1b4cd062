"""Reductions in tiles: every loss gives what one dense matrix gives, and refuses what it cannot give."""

import pytest
import torch

from similis.objective.comparison.compare import compare
from similis.objective.context import dense, tiles
from similis.objective.loss import loss
from similis.objective.terms.reductions import lse, top, total
from similis.values import UserError
from tests.batches import random_batch
from tests.contracts.contracts import CONTRACTS, assert_same, exemption, of, relation_of, remembering, results
from tests.proof import DIM, build, forms, shaped_forms

FORMS = [pytest.param(entry, form, id=f"{entry.name}:{form}") for entry, form in forms()]
SHAPED = shaped_forms()
SIZES = [(3, 4), (5, 2), (4, 100)]  # neither 11 samples nor 4 classes are multiples of these


@pytest.mark.parametrize(("entry", "form"), FORMS)
def test_tiles_of_any_size_give_what_one_matrix_gives(entry, form):
    for seed in (0, 1):
        x, labels = random_batch(seed, DIM, duplicates=seed == 0)
        made = build(entry, form, seed)
        with dense():
            want = of(made, x, labels)
        for rows, columns in [(1, 1), *SIZES] if seed else SIZES:
            with tiles(rows, columns):
                assert_same(of(made, x, labels), want, f"tiles of {rows} x {columns}, seed {seed}")


# In float32 the order of a sum is worth 1e-7, which a scale of 64 in an exponent makes 1e-5 of.
# Half-precision inputs are widened on the way in; their gradient is rounded once, to 8 bits.
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize(("entry", "form"), SHAPED)
def test_narrow_numbers(entry, form, dtype, tolerance):
    x, labels = random_batch(1, DIM, duplicates=False)
    made = build(entry, form, dtype=torch.float32)
    with dense():
        want = of(made, x.to(dtype), labels)
    with tiles(3, 4):
        got = of(made, x.to(dtype), labels)
    assert [g.dtype for g in got] == [w.dtype for w in want]
    assert_same(got, want, f"{dtype}", tolerance)


@pytest.mark.parametrize(("entry", "form"), [f for f in SHAPED if f.values[0].memory])
def test_a_memory_in_which_images_of_the_batch_have_other_labels(entry, form):
    if exemption(entry, form, "memory"):
        pytest.skip("this form takes no memory")
    for seed in (0, 1):
        x, labels = random_batch(seed, DIM)
        made = build(entry, form, seed)
        parameters = list(made.parameters())
        older = remembering(made, seed, torch.arange(11))
        with dense():
            want = results(older, x, labels, parameters)
        for rows, columns in SIZES:
            with tiles(rows, columns):
                assert_same(results(older, x, labels, parameters), want, f"memory, {rows} x {columns}")


@pytest.mark.parametrize(("entry", "form"), [f for f in SHAPED if f.values[0].relation != "none"])
def test_a_relation_with_grades_and_pairs_that_do_not_count(entry, form):
    x, labels = random_batch(0, DIM)
    matrix = relation_of(entry, labels).double()
    places = torch.arange(matrix.numel(), dtype=torch.float64).view_as(matrix)
    matrix = matrix * (0.3 + 0.6 * (0.7 * places).sin().square())
    matrix = torch.where((matrix == 0) & (places % 5 == 0), -1.0, matrix)
    made = build(entry, form)
    with dense():
        want = of(made, x, matrix)
    for rows, columns in SIZES:
        with tiles(rows, columns):
            assert_same(of(made, x, matrix), want, f"relation, {rows} x {columns}")


KEPT = ("oracle", "degenerate", "half", "permutation", "renaming", "labels")


@pytest.mark.parametrize(("entry", "form"), SHAPED)
def test_contracts_hold_in_tiles(entry, form):
    for name in KEPT:
        if not exemption(entry, form, name):
            with tiles(3, 4):
                CONTRACTS[name].check(entry, form)


def test_ties_of_top_go_to_the_lowest_column_whatever_the_tiles():
    x = torch.eye(3, dtype=torch.float64)[torch.tensor([0, 1, 0, 1, 0, 2, 0])]
    labels = torch.tensor([5, 1, 4, 5, 0, 4, 1])  # sorted by label, column 0 is among the last
    for k in (1, 2, 3):
        with dense():
            want = compare(x, labels, sphere=True).neg(lambda t, k=k: top(t.s, k=k))
        for rows, columns in SIZES:
            with tiles(rows, columns):
                got = compare(x, labels, sphere=True).neg(lambda t, k=k: top(t.s, k=k))
            assert torch.equal(got.index, want.index), f"k = {k}, tiles of {rows} x {columns}"
            assert torch.equal(got.values, want.values)


def test_exponents_that_no_number_can_hold():
    x, labels = random_batch(0)
    x = (x * 40).float().requires_grad_()
    for context in (dense(), tiles(3, 4)):
        with context:
            value = compare(x, labels, sphere=False).neg(lambda t: lse(30 * t.s)).sum()
        (gradient,) = torch.autograd.grad(value, x)
        assert value.isfinite()
        assert gradient.isfinite().all()


@pytest.mark.parametrize("name", ["triplet", "multi_similarity", "softmax", "soft_triple"])
def test_a_second_derivative_is_refused_in_words(name):
    x, labels = random_batch(0)
    made = loss(name, num_classes=4, dim=5).double()
    x.requires_grad_()
    with tiles(3, 4):
        value = made(x, labels)
    with pytest.raises(UserError, match=r"second derivatives.*dense"):
        torch.autograd.grad(value, x, create_graph=True)
    with dense():
        value = made(x, labels)
    (first,) = torch.autograd.grad(value, x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    assert second.isfinite().all()


def test_a_learned_tensor_from_outside_is_refused():
    x, labels = random_batch(0)
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    with tiles(3, 4), pytest.raises(UserError, match="pass it through rows= or cols="):
        compare(x, labels, sphere=True).neg(lambda t: lse(scale * t.s))
    with tiles(3, 4):
        rows = compare(x, labels, sphere=True).neg(lambda t, s: total(s * t.s), rows=(scale.expand(11),))
    (got,) = torch.autograd.grad(rows.sum(), scale)
    with dense():
        rows = compare(x, labels, sphere=True).neg(lambda t: total(scale * t.s))
    assert got.item() == pytest.approx(torch.autograd.grad(rows.sum(), scale)[0].item(), abs=1e-12)


@pytest.mark.parametrize("name", ["softmax", "proxy_anchor", "soft_triple"])
def test_an_optimiser_step_before_the_backward_pass_is_noticed(name):
    x, labels = random_batch(0)
    made = loss(name, num_classes=4, dim=5).double()
    with tiles(3, 4):
        value = made(x.requires_grad_(), labels)
    with torch.no_grad():
        made.learned["proxies"].add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


@pytest.mark.parametrize("name", ["normface", "proxy_anchor", "soft_triple"])
def test_a_pass_that_asks_for_one_leaf_leaves_nothing_to_the_next(name):
    x, labels = random_batch(0)
    made = loss(name, num_classes=4, dim=5).double()
    proxies = made.learned["proxies"]
    x.requires_grad_()
    with tiles(3, 4):
        value = made(x, labels)
    together = torch.autograd.grad(value, [x, proxies], retain_graph=True)
    apart = [torch.autograd.grad(value, leaf, retain_graph=True)[0] for leaf in (x, proxies, x)]
    for got, want in zip(apart, [*together, together[0]], strict=True):
        assert torch.equal(got, want)


def test_the_graph_is_used_once_unless_it_is_kept():
    x, labels = random_batch(0)
    for name in ("triplet", "supcon"):
        with tiles(3, 4):
            value = loss(name)(x.requires_grad_(), labels)
        value.backward()
        with pytest.raises(RuntimeError, match="retain_graph=True"):
            value.backward()
