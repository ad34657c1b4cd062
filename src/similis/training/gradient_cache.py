"""Gradient caching: the loss over the whole batch, the activations of one chunk.

A batch-coupled loss cannot be accumulated over small batches; its gradient with respect to the
embeddings can be computed once for all of them and then be carried back chunk by chunk.
Gao, Zhang, Han, Callan: Scaling Deep Contrastive Learning Batch Size, RepL4NLP 2021.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from similis.engine.collectives import keep_gradients_apart
from similis.training.randomness import use_seed
from similis.values import UserError


def cached_backward(
    embed: Callable[[Tensor], Tensor],
    images: Tensor,
    value_of: Callable[[Tensor], Tensor],
    *,
    chunk: int,
    seeds: tuple[int, ...],
    network: nn.Module | None = None,
) -> Tensor:
    """Gradients of ``value_of(embed(images))`` with the activations of ``chunk`` images at a time.

    Args:
        embed: the model; must treat images independently (no batch norm in training mode).
        images: (B, ...).
        value_of: embeddings (B, D) -> scalar.
        chunk: images per forward pass.
        seeds: of the step; both passes of a chunk draw the same random numbers.
        network: that ``embed`` calls; ranks join its gradients once, with those of the last chunk.

    Returns:
        The loss, detached; gradients are in the parameters.
    """
    parts = torch.split(images, chunk)
    with torch.no_grad():
        embeddings = torch.cat([_embed(embed, part, (*seeds, i)) for i, part in enumerate(parts)])
    embeddings = embeddings.detach().requires_grad_()
    value = value_of(embeddings)
    torch.autograd.backward(value)
    gradient = embeddings.grad
    if gradient is None:
        raise UserError("the loss does not depend on the embeddings; there is nothing to train")
    for i, (part, piece) in enumerate(zip(parts, torch.split(gradient, chunk), strict=True)):
        with nullcontext() if network is None or i + 1 == len(parts) else keep_gradients_apart(network):
            torch.autograd.backward(_embed(embed, part, (*seeds, i)), piece)
    return value.detach()


def _embed(embed: Callable[[Tensor], Tensor], part: Tensor, seeds: tuple[int, ...]) -> Tensor:
    with use_seed(*seeds, device=part.device):
        return embed(part)


def check_batch_norm(model: nn.Module, *, world: int = 1, chunk: int | None = None) -> None:
    """Refuse batch norm that is being trained where one batch is not seen whole: by several ranks, or in chunks."""
    if world == 1 and chunk is None:
        return
    for name, layer in model.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training:
            why = f"{world} processes" if world > 1 else f"chunks of {chunk} images (gradient caching)"
            raise UserError(
                f"{why} cannot share the batch statistics of {name}; freeze batch norm "
                "(model.freeze_batch_norm: true), or use one process and no chunks"
            )
