"""N-pair loss: oracles of its three choices of positives, worked numbers, the simplex."""

import math

import pytest
import torch

from similis.objective.losses.npair import npair
from similis.objective.references import Block, References
from similis.values import UserError
from tests.batches import A_LABELS, B_LABELS, A, B, random_batch
from tests.plain import dot, lse1, mean, negatives, positives
from tests.proof import Peer


def norms(rows):
    return mean([dot(row, row) for row in rows])


def oracle_anchors(x, labels, learned, options):
    values = []
    for i in range(len(x)):
        near, far = positives(i, labels), negatives(i, labels)
        if near and far:
            chosen = near if options["positives"] == "all" else [min([j for j in near if j > i] or near)]
            values.append(mean([lse1([dot(x[i], x[k]) - dot(x[i], x[j]) for k in far]) for j in chosen]))
    return mean(values) + options["l2"] * norms(x)


def oracle_pairs(x, labels, learned, options):
    members = [[i for i, y in enumerate(labels) if y == c] for c in sorted(set(labels))]
    pairs = [m[:2] for m in members if len(m) > 1]
    values = [lse1([dot(x[a], x[q]) - dot(x[a], x[p]) for _, q in pairs if q != p]) for a, p in pairs]
    value = mean(values) if len(pairs) > 1 else 0.0
    return value + options["l2"] * norms([x[i] for pair in pairs for i in pair])


ORACLES = {"all": oracle_anchors, "one": oracle_anchors, "pairs": oracle_pairs}


def peer(x, labels, learned):
    from pytorch_metric_learning import distances, losses

    return losses.NPairsLoss(distance=distances.DotProductSimilarity(normalize_embeddings=False))(x, labels)


PEERS = {
    "pairs": Peer(
        "NPairsLoss(DotProductSimilarity(normalize_embeddings=False))",
        peer,
        agrees=False,
        note="it has no term of the squared norms: with l2=0 both are equal (its default also normalises)",
    )
}


def test_without_the_norms_the_peer_agrees():
    for seed in range(3):
        x, labels = random_batch(seed)
        assert float(npair(x, labels, positives="pairs", l2=0.0)) == pytest.approx(
            float(peer(x, labels, {})), abs=1e-10
        )


WORKED = [
    ((A, A_LABELS), {"positives": "pairs", "l2": 0.0}, 0.62648094),
    ((A, A_LABELS), {"positives": "pairs"}, 0.64648094),
    ((3 * A, A_LABELS), {"positives": "pairs", "l2": 0.0}, 0.17246376),
    ((3 * A, A_LABELS), {"positives": "pairs"}, 0.35246376),
    ((3 * A, A_LABELS), {"positives": "pairs", "sphere": True}, 0.64648094),
    ((A[[1, 0, 2, 3, 4, 5]], A_LABELS), {"positives": "pairs", "l2": 0.0}, 0.55461344),
    ((A, A_LABELS), {"l2": 0.0}, 0.92106856),
    ((B, B_LABELS), {"l2": 0.0}, 1.23450733),
    ((A, A_LABELS), {"positives": "one", "l2": 0.0}, 0.92106856),
    ((B, B_LABELS), {"positives": "one", "l2": 0.0}, 1.21907625),
]


def columns_of(x, labels, *index):
    return References((Block(x[list(index)], labels[list(index)]),))


def test_one_negative_is_the_smooth_triplet_without_a_margin():
    value = npair(A[:1], A_LABELS[:1], references=columns_of(A, A_LABELS, 1, 2), l2=0.0)
    z = float(A[0] @ A[2] - A[0] @ A[1])
    assert float(value) == pytest.approx(0.32670356, abs=1e-6)
    assert float(value) == pytest.approx(math.log1p(math.exp(z)), abs=1e-12)


@pytest.mark.parametrize(("pairs", "floor"), [(2, 0.12692801), (5, 0.76361459), (20, 2.03226389), (36, 2.60366008)])
def test_on_the_unit_sphere_even_a_perfect_simplex_pays(pairs, floor):
    centred = torch.eye(pairs, dtype=torch.float64) - 1 / pairs
    x = torch.nn.functional.normalize(centred).repeat_interleave(2, 0)
    value = npair(x, torch.arange(pairs).repeat_interleave(2), positives="pairs", l2=0.0, sphere=True)
    assert float(value) == pytest.approx(floor, abs=1e-6)


def test_a_single_pair_leaves_the_norms_alone():
    x = torch.tensor([[3.0, 0.0], [4.0, 0.0], [9.0, 0.0]], dtype=torch.float64)
    assert float(npair(x, torch.tensor([0, 0, 1]), positives="pairs", l2=0.1)) == pytest.approx(0.1 * 12.5)


def test_a_memory_cannot_serve_pairs_and_a_wrong_choice_is_named():
    refs = References((Block(A, A_LABELS), Block(B, B_LABELS)))
    with pytest.raises(UserError, match="memory"):
        npair(A, A_LABELS, references=refs, positives="pairs")
    with pytest.raises(UserError, match="did you mean 'pairs'"):
        npair(A, A_LABELS, positives="pair")
