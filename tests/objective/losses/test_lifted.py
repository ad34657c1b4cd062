"""Lifted structured loss: oracles of its four forms, worked numbers, identities."""

from itertools import combinations

import pytest
import torch

from similis.objective.losses.lifted import lifted
from similis.objective.losses.triplet import triplet
from similis.objective.references import Block, References
from similis.values import Triplets, UserError
from tests.batches import A_LABELS, B_LABELS, A, B, circle, random_batch
from tests.plain import ZERO, distance, dot, hinge, lse, mean, negatives, number, on_sphere, positives
from tests.proof import Peer


def oracle_song(x, labels, learned, options):
    values = []
    for i, j in combinations(range(len(x)), 2):
        if labels[i] != labels[j]:
            continue
        far = [1.0 - distance(x[i], x[k]) for k in negatives(i, labels)]
        far += [1.0 - distance(x[j], x[k]) for k in negatives(j, labels)]
        values.append(hinge(lse(far) + distance(x[i], x[j])) ** 2 if far else ZERO)
    return mean(values) / 2


def oracle_anchors(x, labels, learned, options):
    if options["form"] == "thesis":
        x = on_sphere(x)
        near_value, far_value = (lambda a, b: 0.5 - dot(a, b)), dot
    else:
        near_value, far_value = distance, (lambda a, b: 1.0 - distance(a, b))
    values = []
    for i in range(len(x)):
        near, far = positives(i, labels), negatives(i, labels)
        if near and far:
            sums = lse([near_value(x[i], x[j]) for j in near]) + lse([far_value(x[i], x[k]) for k in far])
            values.append(hinge(sums))
    return mean(values)


def oracle_deepmetric(x, labels, learned, options):
    x = on_sphere(x)
    values = []
    for i in range(len(x)):
        near = [dot(x[i], x[j]) for j in positives(i, labels)]
        far = [dot(x[i], x[k]) for k in negatives(i, labels)]
        if near and far:
            low, high = min(map(number, near)), max(map(number, far))
            near = [s for s in near if number(s) < high + 0.1]
            far = [s for s in far if number(s) > low - 0.1]
        values.append(lse([-2 * s for s in near]) + lse([40 * s for s in far]) / 20 if near and far else ZERO)
    return mean(values)


ORACLES = {
    "song": oracle_song,
    "thesis": oracle_anchors,
    "generalised": oracle_anchors,
    "deepmetric": oracle_deepmetric,
}


def peer(name):
    def value(x, labels, learned):
        from pytorch_metric_learning import distances, losses

        return getattr(losses, name)(neg_margin=1, distance=distances.LpDistance(normalize_embeddings=False))(x, labels)

    return value


PEERS = {
    "song": Peer("LiftedStructureLoss(LpDistance(normalize_embeddings=False))", peer("LiftedStructureLoss")),
    "generalised": Peer(
        "GeneralizedLiftedStructureLoss(LpDistance(normalize_embeddings=False))",
        peer("GeneralizedLiftedStructureLoss"),
        agrees=False,
        note="an anchor without positives counts, with 0 for the logarithm of its empty sum; equal if there is none",
    ),
}


def test_where_every_anchor_has_positives_the_peer_agrees_on_the_generalised_form():
    x, labels = random_batch(0)
    x, labels = x[labels != 3], labels[labels != 3]
    theirs = PEERS["generalised"].value(x, labels, {})
    assert float(lifted(x, labels, form="generalised")) == pytest.approx(float(theirs), abs=1e-10)


WORKED = [
    ((A, A_LABELS), {"form": "song"}, 2.56620929),
    ((B, B_LABELS), {"form": "song"}, 3.75675051),
    ((A, A_LABELS), {"form": "thesis"}, 5.41714633 / 6),
    ((B, B_LABELS), {"form": "thesis"}, 12.48361185 / 6),
    ((A, A_LABELS), {"form": "generalised"}, 1.56093223),
    ((B, B_LABELS), {"form": "generalised"}, 2.66695387),
    ((A, A_LABELS), {"form": "deepmetric"}, -0.01438207),
    ((B, B_LABELS), {"form": "deepmetric"}, 1.18512102),
]


def test_one_positive_and_one_negative_make_a_triplet():
    x = circle(0, 40, 50)
    labels = torch.tensor([0, 0, 1])
    refs = References((Block(x[1:], labels[1:]),))
    value = lifted(x[:1], labels[:1], references=refs, form="thesis", margin=0.3)
    one = Triplets(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))
    hinged = triplet(x, labels, tuples=one, margin=0.3)
    assert float(value) == pytest.approx(float(hinged), abs=1e-12)
    assert float(value) > 0.1


def test_an_end_without_negatives_leaves_the_other_ends_negatives_in_force():
    """Only a relation can do this: sample 1 has no negatives, its partner 0 has one."""
    x = torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64)
    relation = torch.tensor([[1, 1, 0], [1, 1, -1], [0, -1, 1]])
    assert float(lifted(x, relation, margin=4.0)) == pytest.approx((1 + (4.0 - 3.0)) ** 2 / 2)


def test_what_has_no_meaning_is_refused():
    with pytest.raises(UserError, match="has no margin"):
        lifted(A, A_LABELS, form="deepmetric", margin=0.5)
    with pytest.raises(UserError, match="sphere=False"):
        lifted(A, A_LABELS, form="thesis", sphere=False)
    with pytest.raises(UserError, match="memory"):
        lifted(A, A_LABELS, references=References((Block(A, A_LABELS), Block(B, B_LABELS))))
    with pytest.raises(UserError, match="did you mean 'generalised'"):
        lifted(A, A_LABELS, form="generalized")
