"""A loss outside the package: the softly nearest negative must be farther than the softly farthest positive."""

from torch import Tensor

from similis.formula import Cost, Range, compare, lse, present, register_loss, softplus


@register_loss(
    family="pair",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B^2 D", memory="B^2"),
    paper="none",
    network="none",
    weight="P and N: softmax weight in both sets",
    space={"scale": Range(4.0, 64.0, log=True)},
)
def soft_gap(embeddings: Tensor, labels: Tensor, *, scale: float = 16.0) -> Tensor:
    """Softplus of the gap between the softly farthest positive and the softly nearest negative."""
    p = compare(embeddings, labels, sphere=True)
    farthest = p.pos(lambda t: lse(-scale * t.s))
    nearest = p.neg(lambda t: lse(scale * t.s))
    return p.mean(softplus(farthest + nearest), present(farthest) & present(nearest))
