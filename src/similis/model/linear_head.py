"""A linear map in closed form behind the network of a model, as its head."""

from __future__ import annotations

import copy

import torch
from torch import nn

from similis.data.manifest import Manifest
from similis.data.splits import split_data
from similis.model.encoding import Encoder
from similis.networks.embedder import Embedder
from similis.run.frozen_backbone import MOST_DIM, fit_split
from similis.run.spec import ModelSpec
from similis.values import UserError

SHARE = 0.2  # of the classes that choose the shrinkage


def fit_linear_head(
    encoder: Encoder, spec: ModelSpec, data: Manifest, kind: str, dim: int | None
) -> tuple[Embedder, ModelSpec]:
    """The network with a map behind it that is fitted on labelled images, and its specification.

    Args:
        encoder: of the model.
        spec: of its network.
        data: labelled images; a fifth of their classes chooses the shrinkage, all of them fit the map.
        kind: ``whitening``, ``pca`` or ``lda``.
        dim: size of the new embeddings; None for 512, or for the model's own if that is less.
    """
    if not data.has("class_name"):
        raise UserError("the data has no labels; fit a metric on a folder of class folders, or on a table with labels")
    before = encoder.embedder
    plain = copy.copy(before)
    plain.normalise = False  # a map of unnormalised vectors joins the head that there is
    vectors = Encoder(plain, encoder.machine).encode(data, 32)
    split = split_data(data, protocol="fixed-validation", seed=0, validation_share=SHARE, test_share=0)
    found = fit_split(kind, vectors, data.labels, split, dim or min(MOST_DIM, before.dim)).map
    weight, bias = found.weight, found.bias
    if before.head is not None:
        weight, bias = weight @ before.head.weight.cpu(), weight @ before.head.bias.cpu() + bias
    head = nn.Linear(weight.shape[1], len(bias))
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    changes = {"dim": len(bias), "head": kind, "pooling": spec.pooled_by}
    return before.with_head(head.to(encoder.machine.chosen)).eval(), spec.model_copy(update=changes)
