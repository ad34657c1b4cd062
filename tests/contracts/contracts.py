"""The contracts that every registered loss keeps, one function each.

A contract takes an entry of the registry and one of its forms and raises AssertionError if the
loss breaks it. A loss opts out in its own file, ``exempt={"contract": reason}`` for all of its
forms or ``exempt={"contract:form": reason}`` for one; the tests see to it that the reason is still
true. Contracts about the entry as a whole are marked ``once`` and run for its first form only.
"""

import torch
from torch import Tensor

from similis.registry import LossEntry
from tests.batches import random_batch
from tests.contracts.mechanism import CONTRACTS, EXACT, HALF, SEEDS, assert_same, contract, exemption, of, results
from tests.contracts.usage import relation_of, remembering
from tests.proof import CLASSES, DIM, agreement, build, proof_of

__all__ = ["CONTRACTS", "assert_same", "exemption", "of", "relation_of", "remembering", "results"]


@contract()
def oracle(entry: LossEntry, form: str) -> None:
    """Value and gradients are those of the plain loops in the loss's test file."""
    try:
        known = proof_of(entry.name).ORACLES
    except (ModuleNotFoundError, AttributeError) as error:
        raise AssertionError(f"the oracles of {entry.name} are missing: {error}") from error
    assert form in known, f"tests/objective/losses/test_{entry.name}.py has no ORACLES[{form!r}]"
    for seed in SEEDS:
        for duplicates in (True, False):
            value, gradient = agreement(entry, form, known[form], seed, duplicates)
            assert value <= EXACT, f"seed {seed}, duplicates {duplicates}: value is off by {value:.1e}"
            assert gradient <= EXACT, f"seed {seed}, duplicates {duplicates}: gradient is off by {gradient:.1e}"


@contract()
def gradcheck(entry: LossEntry, form: str) -> None:
    """The gradient is the derivative of the value, for embeddings and parameters."""
    x, labels = random_batch(0, DIM, duplicates=False)
    made = build(entry, form)
    names = [name for name, _ in made.named_parameters()]

    def value(embeddings: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(made, dict(zip(names, parameters, strict=True)), (embeddings, labels))

    inputs = [t.detach().clone().requires_grad_() for t in (x, *made.parameters())]
    try:
        torch.autograd.gradcheck(value, inputs, eps=1e-6, atol=1e-6, rtol=1e-5, fast_mode=True)
    except RuntimeError as error:  # GradcheckError is one
        raise AssertionError(str(error)) from error


@contract()
def permutation(entry: LossEntry, form: str) -> None:
    """The order of the samples means nothing."""
    for seed in SEEDS:
        x, labels = random_batch(seed, DIM, duplicates=False)
        made = build(entry, form, seed)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        want, got = of(made, x, labels), of(made, x[order], labels[order])
        want[1] = want[1][order]
        assert_same(got, want, f"samples in another order, seed {seed}")


@contract()
def renaming(entry: LossEntry, form: str) -> None:
    """Class ids are names: large and negative ones give what 0 to C - 1 give."""
    x, labels = random_batch(0, DIM)
    made = build(entry, form)
    want = of(made, x, labels)
    for first in (2**24 + 1, 2**53 + 1, 2**62, -(2**62), -9):
        ids = torch.arange(first, first + CLASSES)
        other = build(entry, form, class_ids=ids.tolist()) if made.learned else made
        assert_same(of(other, x, ids[labels]), want, f"class ids from {first}")
    if not made.learned:  # names have no order either; rows of parameters do
        assert_same(of(made, x, 2**53 + 7 - labels), want, "class ids in falling order")


@contract()
def rotation(entry: LossEntry, form: str) -> None:
    """Embeddings and class vectors rotated together keep the value; gradients rotate along."""
    x, labels = random_batch(1, DIM)
    generator = torch.Generator().manual_seed(5)
    turn = torch.linalg.qr(torch.randn(DIM, DIM, generator=generator, dtype=torch.float64)).Q
    made, turned = build(entry, form, 1), build(entry, form, 1)
    vectors = [value.ndim >= 2 and value.shape[-1] == DIM for value in made.parameters()]
    with torch.no_grad():
        for value, is_vector in zip(turned.parameters(), vectors, strict=True):
            value.copy_(value @ turn if is_vector else value)
    want = of(made, x, labels)
    want = [g @ turn if turns else g for g, turns in zip(want, [False, True, *vectors], strict=True)]
    assert_same(of(turned, x @ turn, labels), want, "rotated")


@contract()
def scale(entry: LossEntry, form: str) -> None:
    """A loss that says it puts embeddings on the unit sphere does not see their lengths."""
    if entry.input != "unit":
        return
    x, labels = random_batch(2, DIM)
    made = build(entry, form, 2)
    lengths = torch.linspace(0.25, 40.0, len(x), dtype=torch.float64)[:, None]
    want, got = of(made, x, labels), of(made, x * lengths, labels)
    got[1] = got[1] * lengths
    assert_same(got, want, "other lengths")


def degenerate_batches() -> dict[str, tuple[Tensor, Tensor]]:
    """Batches in which a set, or every difference, is missing."""
    x, _ = random_batch(0, DIM, duplicates=False)
    mixed = torch.tensor([0, 0, 1, 1, 2, 2])
    return {
        "no positives": (x[:4], torch.arange(4)),
        "one class": (x[:6], torch.ones(6, dtype=torch.int64)),
        "one sample": (x[:1], torch.zeros(1, dtype=torch.int64)),
        "no samples": (x[:0], torch.zeros(0, dtype=torch.int64)),
        "equal rows": (x[:1].expand(6, -1), mixed),
        "equal rows of one class": (x[:1].expand(6, -1), torch.ones(6, dtype=torch.int64)),
        "rows of zeros": (torch.zeros_like(x[:6]), mixed),
    }


@contract()
def degenerate(entry: LossEntry, form: str) -> None:
    """Poor batches give a finite value that is attached to the graph, and finite gradients."""
    for what, (rows, labels) in degenerate_batches().items():
        for dtype in (torch.float64, torch.float32):
            made = build(entry, form, dtype=dtype)
            x = rows.detach().to(dtype).clone().requires_grad_()
            value = made(x, labels)
            assert value.isfinite(), f"{what}, {dtype}: value is {value.item()}"
            assert value.requires_grad, f"{what}, {dtype}: value has no way back to the embeddings"
            value.backward()
            for name, tensor in [("embeddings", x), *made.named_parameters()]:
                assert tensor.grad is not None, f"{what}, {dtype}: no gradient for {name}"
                assert tensor.grad.isfinite().all(), f"{what}, {dtype}: gradient of {name} is not finite"


@contract()
def half(entry: LossEntry, form: str) -> None:
    """Autocast and half-precision inputs give what float32 gives; parameters stay float32."""
    x, labels = random_batch(0, DIM)
    made = build(entry, form, dtype=torch.float32)

    def cast(embeddings: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return made(embeddings, labels)

    def assert_kept(got: list[Tensor], want: list[Tensor], what: str) -> None:
        assert all(t.isfinite().all() for t in got), f"{what}: not finite"
        rounded = [w.to(g.dtype) for g, w in zip(got, want, strict=True)]  # a gradient has the type of its tensor
        assert_same(got, rounded, what, HALF if got[1].dtype == torch.float32 else 10 * HALF)
        assert all(p.dtype == torch.float32 for p in made.parameters()), f"{what}: parameters changed their type"

    own = list(made.parameters())
    assert_kept(results(cast, x.float(), labels, own), of(made, x.float(), labels), "autocast bfloat16")
    for dtype in (torch.float16, torch.bfloat16):
        assert_kept(of(made, x.to(dtype), labels), of(made, x.to(dtype).float(), labels), f"{dtype} embeddings")


def compiled(entry: LossEntry, form: str, backend: str, dtype: torch.dtype, tolerance: float) -> None:
    """One graph, and the same results as without it."""
    x, labels = random_batch(0, DIM)
    made = build(entry, form, dtype=dtype)
    want = of(made, x.to(dtype), labels)
    torch._dynamo.reset()
    threads = torch.get_num_threads()
    torch.set_num_threads(2)  # kernels for one thread have no atomics, and so not their faults
    try:
        fast = torch.compile(made, fullgraph=True, backend=backend)
        got = results(fast, x.to(dtype), labels, list(made.parameters()))
    except Exception as error:  # whatever the compiler raises, the loss does not compile
        raise AssertionError(f"{backend}: {type(error).__name__}: {error}") from error
    finally:
        torch._dynamo.reset()
        torch.set_num_threads(threads)
    assert_same(got, want, f"compiled by {backend}", tolerance)


@contract()
def compile(entry: LossEntry, form: str) -> None:  # noqa: A001
    """Compiles to one graph with unchanged value and gradients."""
    compiled(entry, form, "aot_eager", torch.float64, EXACT)


@contract(slow=True)
def inductor(entry: LossEntry, form: str) -> None:
    """The same with generated kernels, in float32."""
    compiled(entry, form, "inductor", torch.float32, 1e-4)
