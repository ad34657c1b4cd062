"""Losses inside what PyTorch does to functions: checkpoints, torch.func, autocast around backward, compiled graphs."""

from contextlib import nullcontext

import pytest
import torch
from torch.func import functional_call, grad, vmap
from torch.utils.checkpoint import checkpoint

from similis.objective.context import dense, tiles
from similis.objective.loss import loss
from similis.registry import losses, miners
from similis.values import Triplets, UserError
from tests.batches import random_batch
from tests.contracts.contracts import assert_same, of, results
from tests.proof import DIM, build, shaped_forms


@pytest.fixture(autouse=True)
def every_warning():
    """PyTorch warns once a process; here every test sees what its operations say."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


X, LABELS = random_batch(0, DIM)
FORMS = shaped_forms()
CONTEXTS = {"default": nullcontext, "tiles": lambda: tiles(4, 4)}  # by default a small batch is dense

every_form = pytest.mark.parametrize(("entry", "form"), FORMS)
every_context = pytest.mark.parametrize("context", CONTEXTS)


def recomputed(made):
    """The loss inside a checkpoint that recomputes it on the backward pass."""
    return lambda x, labels: checkpoint(made, x, labels, use_reentrant=False)


def parameters_of(made):
    return list(made.parameters())


@every_form
@every_context
def test_a_checkpointed_loss_has_the_same_gradients(entry, form, context):
    made = build(entry, form)
    with CONTEXTS[context]():
        want = of(made, X, LABELS)
        assert_same(results(recomputed(made), X, LABELS, parameters_of(made)), want, "checkpoint", 1e-12)


@every_form
@every_context
def test_backward_inside_autocast(entry, form, context):
    made = build(entry, form, dtype=torch.float32)
    with CONTEXTS[context]():
        want = of(made, X.float(), LABELS)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got = of(made, X.float(), LABELS)
    for mine, theirs in zip(got, want, strict=True):
        assert mine.dtype == torch.float32
        # products that PyTorch itself differentiates are rounded to bfloat16 there, one part in 256 each
        assert float((mine - theirs).abs().max()) <= 0.03 * max(float(theirs.abs().max()), 1e-3)


@pytest.mark.parametrize("form", ["cosine", "euclid2", "euclid"])
def test_the_hinge_over_all_triplets_keeps_its_precision_inside_autocast(form):
    made = loss("triplet", geometry=form)
    want = of(made, X.float(), LABELS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same(of(made, X.float(), LABELS), want, "backward inside autocast", 1e-6)


def batches():
    """Every form with a small batch; without proxies also a large one, whose few positives are listed, not masked."""
    draw = torch.Generator().manual_seed(0)
    large = torch.randn(192, DIM, generator=draw, dtype=torch.float64), torch.arange(192) // 4
    for case in FORMS:
        entry, form = case.values
        yield pytest.param(entry, form, X, LABELS, id=case.id, marks=case.marks)
        if not entry.learns:
            yield pytest.param(entry, form, *large, id=f"{case.id}-192", marks=case.marks)


every_batch = pytest.mark.parametrize(("entry", "form", "x", "labels"), list(batches()))


def as_function(made, labels):
    """The loss as a function of embeddings and parameters."""
    return lambda x, parameters: functional_call(made, parameters, (x, labels))


@every_batch
def test_func_grad_is_the_gradient_of_backward(entry, form, x, labels):
    made = build(entry, form)
    with dense():
        _, *want = of(made, x, labels)
        parameters = {name: value.detach() for name, value in made.named_parameters()}
        of_x, of_parameters = grad(as_function(made, labels), argnums=(0, 1))(x, parameters)
    assert_same([of_x, *of_parameters.values()], want, "torch.func.grad")


@every_batch
def test_vmap_over_embeddings_with_shared_labels(entry, form, x, labels):
    made = build(entry, form)
    many = torch.stack([x, x.flip(0), 2 * x])
    with dense():
        want = [of(made, each, labels)[:2] for each in many]
        values = vmap(lambda each: made(each, labels))(many).detach()
        got = vmap(grad(lambda each: made(each, labels)))(many).detach()
    assert_same([values, got], [torch.stack(part) for part in zip(*want, strict=True)], "vmap")


def test_vmap_where_the_nearest_of_many_proxies_are_kept():
    made = loss("proxy_gml", num_classes=64, dim=DIM, subproxies=2, neighbors=5).double()
    many = torch.stack([X, X.flip(0)])
    with dense():
        want = torch.stack([made(each, LABELS) for each in many])
        assert torch.allclose(vmap(lambda each: made(each, LABELS))(many), want, rtol=0, atol=1e-12)


@every_form
@pytest.mark.parametrize("transform", [grad, vmap])
def test_tiles_refuse_function_transforms_in_one_sentence(entry, form, transform):
    made = build(entry, form)
    given = X if transform is grad else torch.stack([X, X])
    words = r"torch.func transforms of a loss in tiles are not available; use .*dense\(\)"
    with tiles(4, 4), pytest.raises(UserError, match=words):
        transform(lambda x: made(x, LABELS))(given)


def triplets_of_the_batch():
    same = LABELS[:, None] == LABELS
    positive = same & ~torch.eye(len(X), dtype=torch.bool)
    found: Triplets = miners.get("all_triplets").function(X, positive, ~same)
    return found


@pytest.mark.parametrize("form", ["cosine", "euclid2", "direction"])
def test_transforms_of_a_loss_over_tuples(form):
    made, tuples = build(losses.get("triplet"), form), triplets_of_the_batch()

    def value(x):
        return made(x, LABELS, tuples=tuples)

    x = X.clone().requires_grad_()
    want = torch.autograd.grad(value(x), x)[0]
    got = vmap(grad(value))(torch.stack([X, X]))
    assert_same([*got], [want, want], "vmap of grad over tuples", 1e-12)
    torch._dynamo.reset()
    fast = torch.compile(value, fullgraph=True, backend="eager")
    assert_same([torch.autograd.grad(fast(x), x)[0]], [want], "compiled over tuples", 1e-12)
    torch._dynamo.reset()
