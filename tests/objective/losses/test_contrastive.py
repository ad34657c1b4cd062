"""Contrastive loss: oracle from the four pair functions, worked numbers, identities, grades."""

from itertools import combinations

import pytest
import torch

from similis.objective.losses.contrastive import MARGINS, contrastive
from similis.objective.references import Block, batch_references
from similis.values import Pairs, UserError
from tests.batches import A_LABELS, B_LABELS, U_LABELS, A, B, U, random_batch
from tests.plain import distance, dot, hinge, mean, number, on_sphere, squared_distance
from tests.proof import Peer


def pair_values(x, labels, geometry, margin):
    """Values of the positive and of the negative pairs i < j."""
    same = {
        "cosine": lambda a, b: -dot(a, b),
        "euclid2": squared_distance,
        "hadsell": lambda a, b: squared_distance(a, b) / 2,
        "euclid": distance,
    }[geometry]
    other = {
        "cosine": lambda a, b: hinge(dot(a, b) - margin),
        "euclid2": lambda a, b: hinge(margin - squared_distance(a, b)),
        "hadsell": lambda a, b: hinge(margin - distance(a, b)) ** 2 / 2,
        "euclid": lambda a, b: hinge(margin - distance(a, b)),
    }[geometry]
    pairs = list(combinations(range(len(x)), 2))
    return (
        [same(x[i], x[j]) for i, j in pairs if labels[i] == labels[j]],
        [other(x[i], x[j]) for i, j in pairs if labels[i] != labels[j]],
    )


def oracle(x, labels, learned, options):
    """The default reduction of each geometry, written out."""
    geometry = options["geometry"]
    if geometry in ("cosine", "euclid"):
        x = on_sphere(x)
    near, far = pair_values(x, labels, geometry, MARGINS[geometry])
    active = [v for v in far if number(v) > 0]
    if geometry == "cosine":
        return mean(near) + mean(active)
    if geometry == "euclid":
        return mean([v for v in near if number(v) > 0]) + mean(active)
    return mean(near + far)


ORACLES = dict.fromkeys(["cosine", "euclid2", "hadsell", "euclid"], oracle)


def peer(geometry, **margins):
    def value(x, labels, learned):
        from pytorch_metric_learning import distances, losses

        distance = {
            "cosine": distances.CosineSimilarity(),
            "euclid2": distances.LpDistance(power=2, normalize_embeddings=False),
            "euclid": distances.LpDistance(),
        }[geometry]
        return losses.ContrastiveLoss(distance=distance, **margins)(x, labels)

    return value


PEERS = {
    "cosine": Peer(
        "ContrastiveLoss(CosineSimilarity)",
        peer("cosine", pos_margin=1, neg_margin=0.5),
        agrees=False,
        note="its positives are [1 - S]_+, one more than -S, and those with the value 0 (duplicates) leave the mean",
    ),
    "euclid2": Peer(
        "ContrastiveLoss(LpDistance(power=2))",
        peer("euclid2", pos_margin=0, neg_margin=1),
        agrees=False,
        note="it adds the means of active positives and active negatives; ours is one mean over all pairs",
    ),
    "euclid": Peer("ContrastiveLoss(LpDistance)", peer("euclid", pos_margin=0, neg_margin=0.5)),
}


WORKED = [
    ((U, U_LABELS), {"geometry": "euclid2", "margin": 4.0}, 1.66666667),
    ((U, U_LABELS), {"geometry": "euclid2", "margin": 4.0, "reduction": "sum"}, 10.0),
    ((U, U_LABELS), {"geometry": "euclid2", "margin": 4.0, "reduction": "anchor"}, 2.5),
    ((U, U_LABELS), {"geometry": "hadsell", "margin": 2.0, "reduction": "sum"}, 3.17157288),
    ((U, U_LABELS), {"geometry": "hadsell", "margin": 2.0, "reduction": "balanced"}, 1.25 + 0.67157288 / 4),
    ((A, A_LABELS), {"reduction": "mean"}, -0.13694548),
    ((A, A_LABELS), {"reduction": "balanced"}, -0.69588714),
    ((A, A_LABELS), {}, -0.65496803),
    ((B, B_LABELS), {"reduction": "mean"}, -0.09470130),
    ((B, B_LABELS), {"reduction": "balanced"}, -0.28742953),
    ((B, B_LABELS), {}, -0.08472436),
    ((A, A_LABELS), {"geometry": "euclid"}, 0.76340752),
    ((B, B_LABELS), {"geometry": "euclid"}, 1.30231779),
]


def gradient(x, labels, **options):
    x = x.clone().requires_grad_()
    contrastive(x, labels, **options).backward()
    return x.grad


def test_squared_distances_are_twice_the_offset_cosine_form():
    for reduction in ("sum", "mean", "balanced", "anchor"):
        squared = contrastive(B, B_LABELS, geometry="euclid2", margin=0.8, reduction=reduction)
        cosine = contrastive(B, B_LABELS, margin=0.6, offset=True, reduction=reduction)
        assert float(squared) == pytest.approx(2 * float(cosine), abs=1e-12)


def test_the_offset_moves_the_value_and_no_gradient():
    shifted = contrastive(B, B_LABELS, offset=True)
    assert float(shifted - contrastive(B, B_LABELS)) == pytest.approx(1.0, abs=1e-12)
    assert torch.equal(gradient(B, B_LABELS, offset=True), gradient(B, B_LABELS))


@pytest.mark.parametrize("geometry", list(MARGINS))
def test_listed_pairs_give_what_all_pairs_give(geometry):
    x, labels = random_batch(1)
    same = labels[:, None] == labels[None, :]
    upper = torch.ones_like(same).triu(1)
    once = Pairs(*(same & upper).nonzero().T, *(~same & upper).nonzero().T)
    twice = Pairs(*(torch.cat([a, b]) for a, b in zip(once, [once[1], once[0], once[3], once[2]], strict=True)))
    for reduction in ("active", "balanced", "mean", "sum", "anchor"):
        options = {"geometry": geometry, "reduction": reduction}
        whole = float(contrastive(x, labels, **options))
        assert float(contrastive(x, labels, tuples=once, **options)) == pytest.approx(whole, abs=1e-12)
        factor = 2 if reduction in ("sum", "anchor") else 1
        assert float(contrastive(x, labels, tuples=twice, **options)) == pytest.approx(factor * whole, abs=1e-12)


def test_grades_are_weights_of_the_positives():
    relation = torch.tensor([[1, 0.5, 0], [0.5, 1, -1], [0, -1, 1]], dtype=torch.float64)
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.5]], dtype=torch.float64)
    value = contrastive(x, relation, geometry="euclid2", reduction="sum")
    assert float(value) == pytest.approx(0.5 * 1 + 0.75)  # the pair (1, 2) is neither
    assert float(contrastive(x, relation, geometry="euclid2")) == pytest.approx(1.25 / 1.5)
    index = torch.tensor([0])
    pairs = Pairs(index, index + 1, index, index + 2)
    assert float(contrastive(x, relation, tuples=pairs, geometry="euclid2")) == pytest.approx(1.25 / 1.5)


def test_a_pair_with_the_memory_counts_as_much_as_a_pair_of_the_batch():
    memory = Block(B[4:], B_LABELS[4:], own=torch.arange(4), ids=torch.arange(4, 6))
    refs = batch_references(B[:4], B_LABELS[:4], memory)
    value = contrastive(B[:4], B_LABELS[:4], references=refs, reduction="sum")
    near, far = pair_values(B, B_LABELS.tolist(), "cosine", 0.5)
    inside_the_memory = -dot(B[4], B[5])
    assert float(value) == pytest.approx(float(sum(near) + sum(far) - inside_the_memory), abs=1e-12)


def test_what_has_no_meaning_is_refused():
    with pytest.raises(UserError, match="sphere=False"):
        contrastive(A, A_LABELS, sphere=False)
    with pytest.raises(UserError, match="did you mean 'euclid"):
        contrastive(A, A_LABELS, geometry="euclidean")
    with pytest.raises(UserError, match="did you mean 'balanced'"):
        contrastive(A, A_LABELS, reduction="balance")
