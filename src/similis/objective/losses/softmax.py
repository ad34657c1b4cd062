"""Softmax cross entropy on raw vectors; Eq. 2.26 of the thesis."""

from __future__ import annotations

from torch import Tensor

from similis.objective.comparison.compare import compare_to_classes
from similis.objective.comparison.proxies import one_per_class
from similis.objective.terms.reductions import lse, softplus
from similis.registry import Cost, Preset, register_loss


@register_loss(
    family="classification",
    geometry="inner product",
    input="raw",
    cost=Cost(time="B C D", memory="C D"),
    paper="Bridle: Probabilistic Interpretation of Feedforward Classification Network Outputs, Neurocomputing 1990",
    network="any classifier, its last layer left out afterwards",
    weight="S and N: probability of the class, minus 1 for the own class",
    learns={"proxies": one_per_class()},
    presets={"thesis": Preset({}, "thesis, Eq. 2.26", lr_multiplier=1.0)},
)
def softmax(embeddings: Tensor, labels: Tensor, proxies: Tensor) -> Tensor:
    r"""Ordinary classification: inner products with one weight vector per class, no bias.

    .. math::
        L = \frac{1}{B} \sum_i \Big[ \log \sum_c e^{w_c^\top x_i} - w_{y_i}^\top x_i \Big]

    Computed as softplus of the log-sum-exp of the other classes minus the own logit, which is the
    same number and loses no digits when the own class wins by far.

    Args:
        embeddings: (B, D), used as they are.
        labels: (B,) row numbers of the proxies.
        proxies: (C, D) weight vectors of the classes, used as they are.

    Shapes: embeddings (B, D), labels (B,), proxies (C, D) -> ().

    When to use: as a baseline. Vectors of unit length are allowed but bound the logits: use
    ``normface``, which has a scale for that.

    Example:
        >>> import torch
        >>> round(float(softmax(torch.eye(2), torch.tensor([0, 1]), proxies=torch.eye(2))), 4)
        0.3133
    """
    p = compare_to_classes(embeddings, labels, proxies, sphere=False)
    others = p.neg(lambda t: lse(t.s))
    return p.mean(softplus(others - p.at(labels.long()).s))
