"""InfoNCE between queries and documents, the loss of CLIP and of dense retrieval."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from similis.objective.comparison.compare import compare
from similis.objective.comparison.log_scale import bound_scale, initial_log_scale
from similis.objective.documents import swap_sides
from similis.objective.losses.supcon import positive_softmax
from similis.objective.references import References
from similis.registry import Cost, Preset, Range, check_known, register_loss
from similis.sphere import widen

Direction = Literal["to_documents", "to_queries", "both"]


@register_loss(
    family="pair",
    geometry="cosine",
    input="unit",
    cost=Cost(time="B^2 D", memory="B D"),
    paper="van den Oord, Li, Vinyals: Representation Learning with Contrastive Predictive Coding, 2018",
    network="text and image transformers, 512 (Radford et al., CLIP, ICML 2021)",
    weight="S, P and N: softmax weight among all documents, less an equal share of each positive",
    learns={"log_scale": initial_log_scale},
    relation="graded",
    memory=True,
    forms={"default": {}, "learned": {"learnable": True}, "both": {"direction": "both", "same_side": True}},
    presets={
        "paper": Preset(
            {"temperature": 0.07, "learnable": True, "direction": "both"}, "Radford et al., CLIP, section 2.5"
        ),
    },
    space={"temperature": Range(0.01, 1.0, log=True)},
)
def info_nce(
    embeddings: Tensor,
    labels: Tensor,
    log_scale: Tensor | float = 3.0,
    *,
    references: References | None = None,
    direction: Direction = "to_documents",
    same_side: bool = False,
    max_scale: float = 100.0,
) -> Tensor:
    r"""Softmax cross-entropy of each query over all documents, and of each document over all queries.

    .. math::
        L_{q \to d} = \operatorname{mean}_i \Big( \log \sum_k e^{\tau S_{ik}}
                    - \frac{1}{|P_i|} \sum_{j \in P_i} \tau S_{ij} \Big), \qquad
        L = \tfrac{1}{2} (L_{q \to d} + L_{d \to q})

    with k over the documents of all ranks and the hard negatives, and :math:`P_i` the documents with the
    query's label: its own one where no labels are given. :math:`\tau` is the inverse temperature. A batch
    without documents is compared with itself, which makes the loss ``supcon``.

    Args:
        embeddings: (B, D) queries, put on the unit sphere here.
        labels: (B,), or a relation (B, B) where the batch is compared with itself.
        log_scale: log of the inverse temperature, a number or a learned ().
        references: documents and hard negatives; None for the batch. The module builds them of ``documents=``.
        direction: ``to_documents`` (each query ranks documents), ``to_queries``, or the mean of ``both``. Hard
            negatives stand among the documents.
        same_side: whether other queries are negatives of a query too, and other documents of a document, those
            with its label left out.
        max_scale: bound of the scale, 100 in CLIP; a learned one cannot pass it.

    Shapes: embeddings (B, D), labels (B,) -> ().

    When to use: pairs of two kinds, such as question and answer or caption and photo: large batches, hard
    negatives if you have them. ``both`` where you search in both directions.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> round(float(info_nce(x, torch.tensor([0, 0, 1]), log_scale=0.0)), 4)  # log(1 + 1/e)
        0.3133
    """
    check_known("direction", direction, get_args(Direction))
    temperature = 1 / bound_scale(log_scale, max_scale, widen(embeddings[:0]))
    queries = embeddings, labels, references
    one_way = direction == "to_documents" and not same_side
    documents = None if one_way else swap_sides(*queries)  # gathers the queries of all ranks
    if references is None or documents is None:  # the batch itself has one side
        p = compare(*queries, sphere=True)
        return p.mean(*positive_softmax(p, temperature))
    value = []
    for name, (rows, names, columns), others in (
        ("to_documents", queries, documents[2]), ("to_queries", documents, References(references.blocks[:1])),
    ):  # fmt: skip
        if direction in (name, "both"):
            p = compare(rows, names, columns, sphere=True)
            beside = compare(rows, names, others, sphere=True) if same_side else None
            value.append(p.mean(*positive_softmax(p, temperature, beside)))
    return sum(value[1:], value[0]) / len(value)
