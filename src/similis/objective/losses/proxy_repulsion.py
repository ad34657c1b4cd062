"""Proxy repulsion: ProxyAnchor's pull, and proxies that push each other; Eqs. 6.1 and 6.2 of the thesis."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from similis.objective.comparison.classes import compare_classes
from similis.objective.comparison.compare import Comparison, compare_classes_to
from similis.objective.comparison.proxies import one_per_class
from similis.objective.references import References
from similis.objective.terms.reductions import lse, present, softplus
from similis.registry import Cost, Preset, Range, check_known, register_loss
from similis.sphere import full_precision

Form = Literal["samples", "proxies", "hybrid"]
Gram = Literal["sum", "mean"]


@register_loss(
    family="proxy",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B C D + C^2 D", memory="C D"),
    paper="Psomas: Metric Learning: A Deep Dive, MSc thesis, University of Athens, 2020, chapter 6",
    network="BN-Inception, 512",
    weight="S, P and N: softmax weight among the samples of a proxy; among the other proxies for the push",
    learns={"proxies": one_per_class("kaiming_normal")},
    relation="sets",
    memory=True,
    lr_multiplier=10.0,
    forms={
        "samples": {"form": "samples"},
        "samples_mean": {"form": "samples", "gram": "mean"},
        "proxies": {"form": "proxies"},
        "hybrid": {"form": "hybrid"},
    },
    presets={"thesis": Preset({"scale": 32.0, "margin_cos": 0.1}, "thesis, chapter 6", lr_multiplier=100.0)},
    space={"margin_cos": Range(0.0, 1.0, step=0.1), "scale": Range(0.5, 100.0, log=True)},
)
def proxy_repulsion(
    embeddings: Tensor,
    labels: Tensor,
    proxies: Tensor,
    *,
    references: References | None = None,
    form: Form = "samples",
    gram: Gram = "sum",
    scale: float = 32.0,
    margin_cos: float = 0.1,
) -> Tensor:
    r"""Proxies pull their samples as in ProxyAnchor and push each other apart.

    .. math::
        L = \frac{1}{|P^+|} \sum_{c \in P^+} \log\Big(1 + \sum_{y_i = c} e^{-\alpha (S_{ic} - \delta)}\Big)
          + \frac{1}{C} \sum_c \log\Big(1 + \sum_{c' \ne c} e^{\alpha (G_{cc'} + \delta)}\Big)

    with G = W W^T (``proxies``, Eq. 6.1) or G = W X^T X W^T (``samples``, Eq. 6.2: two proxies are
    alike as far as the batch sees it). ``hybrid`` takes the mean of the push between proxies (6.1)
    and ProxyAnchor's push between proxies and samples. Both means run over all C proxies.

    Args:
        embeddings: (B, D), put on the unit sphere here.
        labels: (B,) row numbers of the proxies, or a relation (B, C) for several classes per sample.
        proxies: (C, D), put on the unit sphere here.
        references: batch and memory as the samples; None for the batch. With a memory G is the mean
            over all of them times B, so that scale and margin keep their meaning.
        form: what the proxies are pushed by.
        gram: G of ``samples`` as the ``sum`` over the batch (thesis; from -B to B) or its ``mean``.
        scale: alpha, 32 in the thesis.
        margin_cos: delta, a cosine, 0.1 in the thesis.

    Shapes: embeddings (B, D), labels (B,), proxies (C, D) -> ().

    When to use: as a contestant of ProxyAnchor. In ``proxies`` samples get no push at all; in
    ``samples`` the push grows with the batch, ``gram="mean"`` undoes that.

    Further reading: Kim et al., Proxy Anchor Loss for Deep Metric Learning, CVPR 2020.

    Example:
        >>> import torch
        >>> x = torch.eye(2)
        >>> round(float(proxy_repulsion(x, torch.tensor([0, 1]), x, form="proxies")), 3)
        3.24
    """
    p = compare_classes_to(proxies, embeddings, labels, references)
    pull = p.pos(lambda t: lse(-scale * (t.s - margin_cos)))
    value = p.mean(softplus(pull), present(pull))
    if form == "samples":
        return value + repulsion(project_on_samples(p, gram), p.rows, scale, margin_cos)
    check_known("form of proxy_repulsion", form, ["samples", "proxies", "hybrid"])
    between = repulsion(p.rows, p.rows, scale, margin_cos)
    if form == "proxies":
        return value + between
    push = p.neg(lambda t: lse(scale * (t.s + margin_cos)))
    return value + (between + p.mean(softplus(push))) / 2


def repulsion(rows: Tensor, columns: Tensor, scale: float, margin_cos: float) -> Tensor:
    """Mean over the classes of log(1 + sum over the other classes of exp(scale (row . column + margin)))."""
    q = compare_classes(rows, columns)
    return q.mean(softplus(q.neg(lambda t: lse(scale * (t.s + margin_cos)))))


def project_on_samples(p: Comparison, gram: Gram) -> Tensor:
    """Rows W X^T X, whose products with W are G: a sum over the batch, or its mean."""
    check_known("gram", gram, ["sum", "mean"])
    with full_precision(p.vectors):
        summed = p.rows @ torch.stack([vectors.T @ vectors for vectors in p.columns()]).sum(0)
    live = len(p.references.blocks[0])  # samples of the batch, those of all ranks
    return summed * ((live if gram == "sum" else 1) / max(len(p.references), 1))
