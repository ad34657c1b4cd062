"""The one autograd Function of everything that is computed in tiles.

A :class:`TiledStep` reads vectors tile by tile and gives values of rows. Beside them the Function gives a
new token for each reader, which the next step takes in. So the backward pass goes through the steps
of a loss in reverse order, and the gradient of a token is the buffer to which all steps after it have
added: one buffer for each reader and pass, and no state outside the graph. All tensors of a step are saved
tensors, so that PyTorch frees them after the backward pass and recomputes them under checkpointing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from similis.objective.backends.tiled.reader import GradientBuffer, Link, TileReader, empty_token
from similis.sphere import full_precision
from similis.values import UserError

Gradients = Sequence[Tensor | None]
Buffers = dict[TileReader, GradientBuffer]  # of a backward pass; none for a reader that is not trained


class TiledStep(Protocol):
    """What the Function computes. A step is a dataclass; its tensors are those of its fields."""

    def readers(self) -> list[TileReader]:
        """What the step reads; one may come twice."""

    def compute(self, values: Sequence[Tensor]) -> Computed:
        """Read everything once."""

    def backpropagate(self, outer: Outer) -> Gradients:
        """Add to the buffers of the readers; the gradients of the values."""


class Computed(NamedTuple):
    """Outputs, further tensors that the backward pass needs, and outputs that are never differentiated."""

    outputs: list[Tensor]
    saved: Sequence[Tensor] = ()
    constant: Sequence[Tensor] = ()


class Outer(NamedTuple):
    """What a backward pass brings: values, which of them want a gradient, what was saved, gradients of outputs."""

    values: list[Tensor]
    needs: Sequence[bool]
    saved: list[Tensor]
    gradients: Gradients
    buffers: Buffers


def run_tiled(step: TiledStep, *values: Tensor) -> list[Tensor]:
    """The outputs of a step, tied into the graph of its values and of the vectors that it reads."""
    readers = trained_readers(step)
    links = [r.link for r in readers if r.link is not None]
    found = TiledFunction.apply(step, len(links), *(link.token for link in links), *values)  # type: ignore[no-untyped-call]
    for link, token in zip(links, found[len(found) - len(links) :], strict=True):
        link.token = token
    return list(found[: len(found) - len(links)])


def trained_readers(step: TiledStep) -> list[TileReader]:
    """The readers of a step that get a gradient, each once."""
    return list(dict.fromkeys(r for r in step.readers() if r.trained))


class TiledFunction(torch.autograd.Function):
    """Tokens and values in, outputs and new tokens out."""

    @staticmethod
    def forward(ctx: Any, step: TiledStep, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Compute the step and keep its tensors as saved tensors."""
        tokens, values = tensors[:count], tensors[count:]
        outputs, saved, constant = step.compute(values)
        own: list[Tensor] = []
        ctx.step, ctx.count = strip_tensors(step, own, {}), count
        ctx.lengths = (len(own), len(values))
        ctx.save_for_backward(*own, *values, *saved)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*constant, *[x for x in outputs if not x.is_floating_point()])
        return *outputs, *(empty_token(token, token.dtype) for token in tokens)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        """Hand the buffers on to the step before."""
        if torch.is_grad_enabled():
            raise UserError(
                "second derivatives (create_graph=True) of a loss in tiles are not available; "
                "use `with similis.objective.context.dense():` around the loss"
            )
        tensors = list(ctx.saved_tensors)
        own, many = ctx.lengths
        values, saved = tensors[own : own + many], tensors[own + many :]
        cut = len(gradients) - ctx.count
        outer, so_far = gradients[:cut], gradients[cut:]
        if all(gradient is None for gradient in outer):
            return None, None, *so_far, *[None] * many
        step: TiledStep = restore_tensors(ctx.step, tensors[:own], {})
        readers = trained_readers(step)
        buffers = {r: GradientBuffer(r, g) for r, g in zip(readers, so_far, strict=True)}
        with full_precision(tensors[0]):
            found = step.backpropagate(Outer(values, ctx.needs_input_grad[2 + ctx.count :], saved, outer, buffers))
        return None, None, *(buffer.total() for buffer in buffers.values()), *found


class Slot(NamedTuple):
    """Stands for a tensor that is saved elsewhere."""

    number: int


def strip_tensors(value: Any, found: list[Tensor], seen: dict[int, Any]) -> Any:
    """A copy of nested dataclasses and sequences with a slot for each tensor, which is put into ``found``."""
    if isinstance(value, Tensor):
        if id(value) not in seen:
            found.append(value)
            seen[id(value)] = Slot(len(found) - 1)
        return seen[id(value)]
    return None if isinstance(value, Link) else copy_nested(value, lambda x: strip_tensors(x, found, seen), seen)


def restore_tensors(value: Any, tensors: list[Tensor], seen: dict[int, Any]) -> Any:
    """The copy of :func:`strip_tensors` with the tensors in their slots again."""
    if isinstance(value, Slot):
        return tensors[value.number]
    return copy_nested(value, lambda x: restore_tensors(x, tensors, seen), seen)


def copy_nested(value: Any, change: Any, seen: dict[int, Any]) -> Any:
    """A dataclass or sequence whose members were changed; what comes twice stays one. Anything else as it is."""
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, tuple | list):
        members = [change(x) for x in value]
        return type(value)(*members) if hasattr(value, "_fields") else type(value)(members)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    made = object.__new__(type(value))
    seen[id(value)] = made
    made.__dict__.update({key: change(x) for key, x in value.__dict__.items()})
    return made
