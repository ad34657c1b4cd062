"""A loss of your own, checked by `python examples/own_loss.py`.

Its verdict: similis compare examples/strokes.yaml --loss examples/own_loss.py:soft_gap --against proxy_anchor --fixed
"""

import torch
from torch import Tensor

import similis
from similis.formula import Cost, Range, compare, lse, present, register_loss, softplus


@register_loss(
    family="pair",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B^2 D", memory="B^2"),
    paper="none",
    network="none",
    weight="P and N: softmax weight in both sets",
    space={"scale": Range(4.0, 64.0, log=True)},  # what `similis compare` searches
)
def soft_gap(embeddings: Tensor, labels: Tensor, *, scale: float = 16.0) -> Tensor:
    """The softly nearest negative must be farther than the softly farthest positive."""
    p = compare(embeddings, labels, sphere=True)
    farthest = p.pos(lambda t: lse(-scale * t.s))
    nearest = p.neg(lambda t: lse(scale * t.s))
    return p.mean(softplus(farthest + nearest), present(farthest) & present(nearest))


if __name__ == "__main__":
    x, labels = torch.randn(6, 4, dtype=torch.float64, requires_grad=True), torch.tensor([0, 0, 1, 1, 2, 2])
    criterion = similis.loss("soft_gap")
    same, itself = labels[:, None] == labels, torch.eye(6).bool()
    s = 16 * torch.nn.functional.normalize(x) @ torch.nn.functional.normalize(x).T  # the definition, written plainly
    near, far = s.masked_fill(same, -torch.inf), (-s).masked_fill(~same | itself, -torch.inf)
    plain = torch.nn.functional.softplus(near.logsumexp(1) + far.logsumexp(1)).mean()
    assert torch.allclose(criterion(x, labels), plain)
    assert torch.autograd.gradcheck(lambda x: criterion(x, labels), (x,))
    print(f"value {plain.item():.4f} as by the definition, gradient as by finite differences")
