"""Gradient caching: the loss over the whole batch, the activations of one chunk.

A batch-coupled loss cannot be accumulated over small batches; its gradient with respect to the
embeddings can be computed once for all of them and then be carried back chunk by chunk.
Gao, Zhang, Han, Callan: Scaling Deep Contrastive Learning Batch Size, RepL4NLP 2021.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from similis.engine.collectives import keep_gradients_apart
from similis.objective.batch import make_side
from similis.training.randomness import use_seed
from similis.values import UserError


class GradientCache(nn.Module):
    """A loss over a large batch, with the activations of ``chunk`` items at a time.

    Call it with the inputs of the network instead of embeddings. The value and all gradients are those of
    ``loss(network(inputs), labels)``; the network runs twice. It must treat items independently: freeze batch norm.

    Args:
        network: inputs (B, ...) -> embeddings (B, D); alone, or in ``DistributedDataParallel``, which then joins the
            gradients once, with those of the last chunk.
        loss: embeddings (B, D) and labels -> a scalar; what it learns are the parameters of the cache.
        chunk: items of a forward pass.
        document_network: of documents and negatives; None for the same network.

    Example:
        >>> from similis.objective.loss import loss
        >>> network = nn.Linear(8, 4)
        >>> cache = GradientCache(network, loss("supcon"), chunk=2)
        >>> cache(torch.randn(6, 8), torch.tensor([0, 0, 1, 1, 2, 2])).backward()
        >>> network.weight.grad.shape
        torch.Size([4, 8])
    """

    network: nn.Module
    document_network: nn.Module | None

    def __init__(
        self, network: nn.Module, loss: nn.Module, chunk: int, *, document_network: nn.Module | None = None
    ) -> None:
        super().__init__()
        if chunk < 1:
            raise UserError(f"chunk is {chunk}; give the number of items of a forward pass, 1 or more")
        object.__setattr__(self, "network", network)  # no part of the module: its parameters are not the loss's
        object.__setattr__(self, "document_network", document_network)
        self.loss, self.chunk = loss, chunk

    def forward(
        self,
        inputs: Tensor,
        labels: Any = None,
        *,
        documents: Tensor | None = None,
        document_labels: Any = None,
        negatives: Tensor | None = None,
        image_ids: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch; its ``backward`` runs the network chunk by chunk.

        Args:
            inputs: (B, ...) of the network.
            labels: (B,) as the loss takes them.
            documents: (M, ...) inputs of the documents, for a loss with two sides.
            document_labels: (M,); None for ``labels``.
            negatives: inputs of hard negatives, (N, ...) shared by all rows, or (B, K, ...), K for each row.
            image_ids: (B,) of the images; a memory needs them.
        """
        side = make_side(documents, document_labels, negatives)
        if side is None:
            (embeddings,) = self._embed(self.network, [inputs])
            value: Tensor = self.loss(embeddings, labels, **({} if image_ids is None else {"image_ids": image_ids}))
            return value
        own = negatives is not None and negatives.ndim > side.documents.ndim
        sides = (
            [side.documents] if negatives is None else [side.documents, negatives.flatten(0, 1) if own else negatives]
        )
        if self.document_network is None:  # one pass: ranks join the gradients of a network once
            found = self._embed(self.network, [inputs, *sides])
        else:
            found = self._embed(self.network, [inputs]) + self._embed(self.document_network, sides)
        given: dict[str, Any] = {"documents": found[1], "document_labels": document_labels}
        if negatives is not None:
            given["negatives"] = found[2].view(*negatives.shape[:2], found[2].shape[1]) if own else found[2]
        return self.loss(found[0], labels, **given)  # type: ignore[no-any-return]

    def _embed(self, network: nn.Module, inputs: list[Tensor]) -> list[Tensor]:
        """Embeddings of several inputs of one network."""
        check_batch_norm(network, chunk=self.chunk)
        seed = int(torch.randint(2**62, (), device="cpu"))  # of both passes, from the generator that dropout draws from
        if len({each.shape[1:] for each in inputs}) > 1:
            shapes = " and ".join(str(tuple(each.shape)) for each in inputs)
            raise UserError(f"inputs of one network have shapes {shapes}; pad them to one, or pass document_network=")
        joined = inputs[0] if len(inputs) == 1 else torch.cat(inputs)
        embeddings = cached_embeddings(network, joined, chunk=self.chunk, seeds=(seed,), network=network)
        return list(torch.split(embeddings, [len(each) for each in inputs]))

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """The optimiser groups of the loss inside."""
        groups: list[dict[str, Any]] = self.loss.parameter_groups(lr)  # type: ignore[operator]
        return groups


def cached_embeddings(
    embed: Callable[[Tensor], Tensor],
    inputs: Tensor,
    *,
    chunk: int,
    seeds: tuple[int, ...],
    network: nn.Module | None = None,
) -> Tensor:
    """Embeddings (B, D) of ``embed(inputs)`` whose gradient is carried back ``chunk`` items at a time.

    Args:
        embed: the network, called with a chunk.
        inputs: (B, ...).
        chunk: items of a forward pass.
        seeds: of the step; both passes of a chunk draw the same random numbers.
        network: that ``embed`` calls; ranks join its gradients once, with those of the last chunk.
    """
    parts = torch.split(inputs, chunk)
    with torch.no_grad():
        embeddings = torch.cat([_embed(embed, part, (*seeds, i)) for i, part in enumerate(parts)])
    if not torch.is_grad_enabled():
        return embeddings

    def carry_back(gradient: Tensor) -> None:
        for i, (part, piece) in enumerate(zip(parts, torch.split(gradient, chunk), strict=True)):
            apart = nullcontext() if network is None or i + 1 == len(parts) else keep_gradients_apart(network)
            with torch.enable_grad(), apart:
                torch.autograd.backward(_embed(embed, part, (*seeds, i)), piece)

    embeddings.requires_grad_().register_hook(carry_back)  # type: ignore[no-untyped-call]
    return embeddings


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
                f"{why} cannot share the batch statistics of {name}; freeze batch norm (put it in evaluation mode; in "
                "a run model.freeze_batch_norm: true), or use one process and no chunks"
            )
