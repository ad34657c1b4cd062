"""Both back-ends answer every call of the protocol alike, in value and gradient, over a batch and a memory."""

import pytest
import torch

from similis.objective.backends.dense import make_dense
from similis.objective.backends.protocol import Operands
from similis.objective.backends.tiled.backend import make_tiled
from similis.objective.context import Tiling
from similis.objective.references import Block, batch_references
from similis.objective.terms.reductions import total
from similis.objective.terms.tile import Ask
from tests.batches import random_batch

CALLS = {
    "rows": lambda backend, _: backend.rows(),
    "columns": lambda backend, number: backend.columns(number),
    "take": lambda backend, number: backend.take(number, torch.tensor([[3, 0], [3, 10]])),
    "own": lambda backend, number: backend.own(number, lambda v: v.exp().sum(-1)),
    "reduce": lambda backend, number: backend.reduce(Ask("neg", lambda t: total(t.s.exp())), number, 11 * number)[1][0],
    "hinges": lambda backend, _: backend.hinges("euclid2", 0.2).value,
}


@pytest.mark.parametrize(("call", "number"), [(call, n) for call in CALLS for n in range(1 + (call != "hinges"))])
def test_dense_and_tiled_agree(call, number):
    found = []
    for make in (make_dense, lambda operands: make_tiled(operands, Tiling(4, 3))):
        x, labels = random_batch(0)
        old, old_labels = random_batch(1)
        memory = Block(old, old_labels, own=torch.arange(11), ids=torch.arange(11) + 4)
        x.requires_grad_()
        references = batch_references(x, labels, None if call == "hinges" else memory)
        value = CALLS[call](make(Operands(x, labels, references, True, True)), number)
        gradient = torch.autograd.grad(value.square().sum(), x)[0] if value.requires_grad else torch.zeros(0)
        found.append((value, gradient))
    for dense, tiled in zip(*found, strict=True):
        assert torch.allclose(dense, tiled, rtol=1e-12, atol=1e-14)
