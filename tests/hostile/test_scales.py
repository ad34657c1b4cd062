"""Embeddings of any length, without direction, or not finite: the right number, a refusal or NaN, never a wrong one."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from similis.objective.losses.npair import pair_rows
from similis.retrieval.evaluate import evaluate
from similis.retrieval.index import build_index
from similis.retrieval.offline_mining import mine_offline
from similis.retrieval.search import search
from similis.retrieval.similarity import to_comparable
from similis.values import DivergedError, Embedded, UserError
from tests.hostile.attacks import BACKENDS, batch, every_backend, every_form, ignores_length, results, same
from tests.proof import build, shaped_forms

SPHERE = [case for case in shaped_forms() if ignores_length(*case.values)]
RAW = [case for case in shaped_forms() if not ignores_length(*case.values)]
on_the_sphere = pytest.mark.parametrize(("entry", "form"), SPHERE)
UNDERFLOW = pytest.mark.xfail(
    strict=True, reason="squared distances of 1e-60 are 0 in float32, and with them the gradient of the distance"
)
exponents = st.lists(st.integers(-100, 100), min_size=11, max_size=11)


def lengths(powers):
    return torch.tensor([2.0**power for power in powers])[:, None]


def assert_length_means_nothing(entry, form, backend, powers):
    """Powers of two are exact, so not one bit may differ; a gradient is divided by the length."""
    made = build(entry, form, dtype=torch.float32)
    x, labels = batch()
    want, got = results(made, x, labels, backend), results(made, x * lengths(powers), labels, backend)
    assert torch.equal(got[0], want[0]), f"{got[0].item()} instead of {want[0].item()}"
    got[1] = got[1] * lengths(powers)
    for mine, truth in zip(got, want, strict=True):  # a gradient of 1e-12 at length 1e30 is lost in underflow
        assert torch.allclose(mine, truth, rtol=1e-6, atol=1e-7 * float(truth.abs().max()))


@on_the_sphere
@every_backend
def test_lengths_change_no_bit(entry, form, backend):
    assert_length_means_nothing(entry, form, backend, [-100, -66, -50, -30, 0, 1, 30, 50, 66, 90, 100])


@pytest.mark.slow
@on_the_sphere
@every_backend
@given(powers=exponents)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_rows_of_any_lengths_change_no_bit(entry, form, backend, powers):
    assert_length_means_nothing(entry, form, backend, powers)


@on_the_sphere
@pytest.mark.parametrize("power", [-100, 100])
def test_class_vectors_of_any_length_change_no_bit(entry, form, power):
    made = build(entry, form, dtype=torch.float32)
    vectors = [value for value in made.parameters() if value.ndim > 1]
    x, labels = batch()
    want = results(made, x, labels)
    with torch.no_grad():
        for value in vectors:
            value.mul_(2.0**power)
    assert same(results(made, x, labels)[:2], want[:2])


def raw_cases():
    for case in RAW:
        entry, form = case.values
        for scale in (1e-30, 1e-15, 1e10, 1e20, 1e30):
            lost = scale == 1e-30 and form in ("hadsell", "song", "generalised")
            marks = [*case.marks, UNDERFLOW] if lost else case.marks
            yield pytest.param(entry, form, scale, id=f"{entry.name}:{form}-{scale}", marks=marks)


@pytest.mark.parametrize(("entry", "form", "scale"), list(raw_cases()))
@every_backend
def test_raw_embeddings_give_the_number_of_float64_or_an_error(entry, form, scale, backend):
    """Squared distances of 1e40 are beyond float32: an error says so, and nobody meets NaN without a word."""
    x, labels = batch(duplicates=False)  # between equal distances of 1e10 rounding alone decides
    if scale > 1e15 and entry.name != "softmax":  # whose products are with proxies of length 1
        with pytest.raises(DivergedError, match=r"is \d\.\de\+\d\d, and their products in float32 need"):
            results(build(entry, form, dtype=torch.float32), x * scale, labels, backend)
        return
    got = results(build(entry, form, dtype=torch.float32), x * scale, labels, backend)
    want = results(build(entry, form), (x * scale).double(), labels, backend)
    assert all(part.isfinite().all() for part in got)
    for mine, truth in zip(got, want, strict=True):
        # what is below the smallest number of float32 is 0
        assert torch.allclose(mine.double(), truth, rtol=1e-3, atol=1e-3 * float(truth.abs().max()) + 1e-20)


@every_form
@every_backend
def test_rows_of_zeros_have_a_finite_loss_and_no_gradient_on_the_sphere(entry, form, backend):
    x, labels = batch()
    x[[0, 4, 5]] = 0.0
    got = results(build(entry, form, dtype=torch.float32), x, labels, backend)
    assert all(part.isfinite().all() for part in got)
    if ignores_length(entry, form):
        assert got[1][[0, 4, 5]].count_nonzero() == 0


@every_form
@every_backend
@pytest.mark.parametrize("strange", [math.nan, math.inf])
def test_an_embedding_that_is_not_finite_never_looks_like_convergence(entry, form, backend, strange):
    made = build(entry, form, dtype=torch.float32)
    _, labels = batch()
    for label in (0, 3):  # class 3 has one sample only, which some losses leave out
        x, row = batch()[0], int((labels == label).nonzero()[-1])
        x[row, 2] = strange
        with BACKENDS[backend]():
            assert not made(x, labels).isfinite(), f"row {row} of class {label}"
            alone = entry.function(x, labels, **made.options, **dict(made.learned))
        unread = form == "pairs" and row not in pair_rows(labels)
        if math.isnan(strange) and not unread:  # an infinite product may be a proper answer
            assert not alone.isfinite(), f"the function alone, row {row} of class {label}"


@every_form
@every_backend
def test_a_learned_value_that_is_not_finite_never_looks_like_convergence(entry, form, backend):
    for name in build(entry, form).learned:
        made = build(entry, form, dtype=torch.float32)
        with torch.no_grad():
            made.learned[name].view(-1)[0] = math.nan
        with BACKENDS[backend]():
            assert not made(*batch()).isfinite(), name


def clusters(dtype=torch.float32):
    """Four tight classes of three: Recall@1 is 1."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(4, 1, 16, generator=generator)
    x = (centres + 0.05 * torch.randn(4, 3, 16, generator=generator)).flatten(0, 1)
    return Embedded(x.to(dtype), torch.arange(4).repeat_interleave(3), torch.arange(12))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("power", [-100, -66, 66, 100])
def test_cosine_retrieval_does_not_see_lengths(dtype, power):
    near = clusters(dtype)
    far = near._replace(vectors=near.vectors * 2.0**power)
    assert torch.equal(to_comparable(far.vectors), to_comparable(near.vectors))
    assert evaluate(far).means == evaluate(near).means
    assert evaluate(far).means["recall@1"] == 1.0
    assert search(far.vectors, near.vectors, 3).index.tolist() == search(near.vectors, near.vectors, 3).index.tolist()
    assert mine_offline(far, 2).negatives.tolist() == mine_offline(near, 2).negatives.tolist()


@pytest.mark.parametrize(
    ("dtype", "scale"), [(torch.float32, 1e25), (torch.float32, 1e-30), (torch.float64, 1e200), (torch.float64, 1e-200)]
)
def test_dot_products_outside_the_range_of_the_type_are_refused(dtype, scale):
    embedded = clusters(dtype)
    far = embedded._replace(vectors=embedded.vectors * scale)
    with pytest.raises(UserError, match="multiply all vectors by one factor"):
        evaluate(far, similarity="dot")
    with pytest.raises(UserError, match="multiply all vectors by one factor"):
        search(far.vectors, far.vectors, 1, similarity="dot")


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e15])
def test_dot_products_within_the_range_are_those_of_float64(scale):
    x = clusters().vectors * scale
    found = search(x, x, 3, similarity="dot")
    want = search(x.double(), x.double(), 3, similarity="dot")
    assert torch.equal(found.index, want.index)
    assert torch.allclose(found.similarity.double(), want.similarity, rtol=1e-5)


def test_an_index_of_float32_refuses_what_only_float64_can_hold():
    pytest.importorskip("faiss")
    far = clusters(torch.float64).vectors * 1e50
    assert build_index(far).search(far, 1).index.flatten().tolist() == list(range(12))
    with pytest.raises(UserError, match="multiply all vectors by one factor"):
        build_index(far, similarity="dot")


def test_both_kinds_of_loss_are_attacked():
    assert {"contrastive", "proxy_anchor"} <= {case.values[0].name for case in SPHERE}
    assert {"npair", "softmax"} <= {case.values[0].name for case in RAW}
