"""Offline mining: over the whole training set, which positive and which negatives an anchor should meet."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from similis.data.samplers.mined import draw_positives
from similis.retrieval.search import NEVER, top
from similis.retrieval.similarity import TILE, tile_rows
from similis.sphere import unit
from similis.values import Embedded


class Mined(NamedTuple):
    """For each row a positive (N,) and its k hardest negatives (N, K), on the host; -1 where there are none."""

    positives: Tensor
    negatives: Tensor

    def useful(self) -> Tensor:
        """Which rows (N,) a batch can be built around: they and their positives have negatives."""
        some = self.negatives[:, 0] >= 0
        return some & (self.positives >= 0) & some[self.positives.clamp(min=0)]


def mine_offline(
    embedded: Embedded, k: int, *, kind: str = "hard", generator: torch.Generator | None = None, tile: int = TILE
) -> Mined:
    """The nearest images of other classes of every image, exactly, in tiles.

    ``hard``: the positive is the farthest of the own class, the negatives are the k nearest of all others.
    ``semi_hard``: the positive is drawn, the negatives are the k nearest that are farther than it.

    Cost: N^2 D products and N K numbers kept. The result is stale as soon as the model moves on; sample
    among the k instead of taking the nearest, which is often a wrong label.

    Args:
        embedded: vectors (N, D) of the training set, labels (N,).
        k: length of the lists.
        kind: see above.
        generator: of the positives of ``semi_hard``; one draw for each row.
        tile: similarities held at once.

    Reference: Harwood, Kumar, Carneiro, Reid, Drummond: Smart Mining for Deep Metric Learning, ICCV 2017.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]])
        >>> found = mine_offline(Embedded(x, torch.tensor([0, 0, 1, 1]), torch.arange(4)), 1)
        >>> found.positives.tolist(), found.negatives.flatten().tolist()
        ([1, 0, 3, 2], [2, 2, 1, 1])
    """
    x = unit(embedded.vectors)  # rows that are not finite mine nothing, and the log says so
    labels, here = embedded.labels.to(x.device), x.device
    positives, negatives = (torch.full((len(x), *shape), -1, device=here) for shape in ((), (k,)))
    if kind == "semi_hard":
        uniform = torch.rand(len(x), generator=generator, dtype=torch.float64, device="cpu")
        positives = torch.from_numpy(draw_positives(labels.cpu().numpy(), uniform.numpy())).to(here)
    for rows in torch.split(torch.arange(len(x), device=here), tile_rows(len(x), tile)):
        similarity = x[rows] @ x.T
        same = labels[rows][:, None] == labels[None, :]
        allowed = ~same
        if kind == "hard":
            positives[rows] = farthest(similarity, same, rows)
        else:
            allowed &= similarity < similarity.gather(1, positives[rows].clamp(min=0)[:, None])
        values, columns = top(similarity.masked_fill(~allowed, NEVER), k)
        negatives[rows, : values.shape[1]] = torch.where(values > NEVER, columns, -1)
    negatives[positives < 0] = -1
    return Mined(positives.cpu(), negatives.cpu())


def farthest(similarity: Tensor, same: Tensor, rows: Tensor) -> Tensor:
    """For each row (t,) the farthest other image of its class; -1 for a class of one."""
    own = same.clone()
    own[torch.arange(len(rows), device=rows.device), rows] = False
    found = similarity.masked_fill(~own, float("inf")).argmin(dim=1)
    return torch.where(own.any(dim=1), found, -1)
