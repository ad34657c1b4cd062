"""ProxyAnchor loss."""

from __future__ import annotations

from torch import Tensor

from similis.objective.comparison.compare import compare_classes_to
from similis.objective.comparison.proxies import one_per_class
from similis.objective.references import References
from similis.objective.terms.reductions import lse, present, softplus
from similis.registry import Cost, Preset, Range, register_loss


@register_loss(
    family="proxy",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B C D", memory="C D"),
    paper="Kim, Kim, Cho, Kwak: Proxy Anchor Loss for Deep Metric Learning, CVPR 2020",
    network="BN-Inception, 512",
    weight="S, P and N: softmax weight among the samples of the proxy",
    learns={"proxies": one_per_class("kaiming_normal")},
    relation="sets",
    memory=True,
    lr_multiplier=100.0,
    presets={
        "paper": Preset({"scale": 32.0, "margin_cos": 0.1}, "official code", lr_multiplier=100.0),
        "thesis": Preset({"scale": 32.0, "margin_cos": 0.1}, "thesis, Table 4", lr_multiplier=100.0),
        "thesis_tuned": Preset({"scale": 32.0, "margin_cos": 0.1}, "thesis, Table 15", lr_multiplier=100.0),
    },
    space={"margin_cos": Range(0.0, 1.0, step=0.1), "scale": Range(2.0, 100.0, step=2.0)},
)
def proxy_anchor(
    embeddings: Tensor,
    labels: Tensor,
    proxies: Tensor,
    *,
    references: References | None = None,
    scale: float = 32.0,
    margin_cos: float = 0.1,
) -> Tensor:
    r"""Each proxy is an anchor: it pulls its class and pushes all others, the hardest most.

    .. math::
        L = \frac{1}{|P^+|} \sum_{c \in P^+} \log\Big(1 + \sum_{y_i = c} e^{-\alpha (S_{ic} - \delta)}\Big)
          + \frac{1}{C} \sum_{c} \log\Big(1 + \sum_{y_i \ne c} e^{\alpha (S_{ic} + \delta)}\Big)

    with :math:`S_{ic}` the cosine of sample i and proxy c, and :math:`P^+` the classes in the batch.
    The second mean runs over all C proxies (Eq. 2.31 of the thesis and the official code).

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,) row numbers of the proxies, or a relation (B, C) for several classes per sample.
        proxies: (C, D), put on the unit sphere here.
        references: batch and memory as the samples; None for the batch.
        scale: alpha, 32 in the paper.
        margin_cos: delta, a cosine, 0.1 in the paper.

    Shapes: embeddings (B, D), labels (B,), proxies (C, D) -> ().

    When to use: the default choice for a few thousand classes; fast to converge, no miner, any batches;
    its proxies want 100 times the learning rate of the network.

    Example:
        >>> import torch
        >>> x = torch.eye(2)
        >>> round(float(proxy_anchor(x, torch.tensor([0, 1]), proxies=torch.eye(2))), 4)
        3.24
    """
    p = compare_classes_to(proxies, embeddings, labels, references)
    pull = p.pos(lambda t: lse(-scale * (t.s - margin_cos)))
    push = p.neg(lambda t: lse(scale * (t.s + margin_cos)))
    return p.mean(softplus(pull), present(pull)) + p.mean(softplus(push))
