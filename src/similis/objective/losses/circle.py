"""Circle loss."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import relu

from similis.objective.comparison.compare import compare
from similis.objective.references import References
from similis.objective.terms.reductions import lse, present, softplus
from similis.registry import Cost, Preset, Range, register_loss


@register_loss(
    family="pair",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B^2 D", memory="B D"),
    paper="Sun, Cheng, Zhang, Zhang, Zheng, Wang, Wei: Circle Loss: A Unified Perspective of Pair Similarity "
    "Optimization, CVPR 2020",
    network="BN-Inception, 512",
    weight="S, P and N: distance from the pair's own optimum times its softmax weight in its set",
    relation="sets",
    memory=True,
    presets={
        "paper": Preset({"margin_cos": 0.4, "scale": 80.0}, "Sun et al., fine-grained retrieval"),
        "faces": Preset({"margin_cos": 0.25, "scale": 256.0}, "Sun et al., face recognition"),
    },
    space={"margin_cos": Range(0.0, 1.0, step=0.1), "scale": Range(8.0, 512.0, log=True)},
    exempt={"gradcheck": "its weights a are constants of the gradient by definition, but not of the value"},
)
def circle(
    embeddings: Tensor,
    labels: Tensor,
    *,
    references: References | None = None,
    margin_cos: float = 0.4,
    scale: float = 80.0,
) -> Tensor:
    r"""Every similarity is pulled to its own optimum with a force that grows with the distance to it.

    .. math::
        \ell_i = \log\Big(1 + \sum_{n \in N_i} e^{\gamma a_n (S_{in} - m)}
                              \sum_{p \in P_i} e^{-\gamma a_p (S_{ip} - (1 - m))}\Big),
        \qquad a_p = [1 + m - S_{ip}]_+, \; a_n = [S_{in} + m]_+

    averaged over the anchors that have both sets. The weights a are constants of the gradient, so
    a positive that already reached 1 - m and a negative below m feel little.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,), or a relation (B, B).
        references: batch and memory; None for the batch.
        margin_cos: m, a cosine; 0.4 for fine-grained retrieval, 0.25 for faces.
        scale: gamma; 80 for fine-grained retrieval, 256 for faces.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: class-balanced batches, no miner; its two settings move together, so tune both.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> round(float(circle(x, torch.tensor([0, 0, 1]), margin_cos=0.25, scale=4.0)), 4)
        0.9624
    """
    p = compare(embeddings, labels, references, sphere=True)
    push = p.neg(lambda t: lse(scale * relu(t.s.detach() + margin_cos) * (t.s - margin_cos)))
    pull = p.pos(lambda t: lse(-scale * relu(1 + margin_cos - t.s.detach()) * (t.s - (1 - margin_cos))))
    return p.mean(softplus(push + pull), present(push) & present(pull))
