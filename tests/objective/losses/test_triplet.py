"""Triplet loss: oracle from the definition, worked numbers."""

import pytest
import torch

from similis.objective.losses.triplet import MARGINS, triplet
from similis.values import Triplets, UserError
from tests.batches import A_LABELS, B_LABELS, A, B, circle
from tests.plain import angle, distance, dot, hinge, mean, negatives, number, on_sphere, positives, softplus
from tests.proof import Peer


def oracle(x, labels, learned, options):
    """All triplets, value by value; mean of the active ones."""
    geometry = options["geometry"]
    if geometry != "euclid2" or options["sphere"]:
        x = on_sphere(x)
    far = {"cosine": lambda a, b: -dot(a, b), "euclid2": lambda a, b: (a - b) @ (a - b), "euclid": distance}[geometry]
    margin = MARGINS[geometry] if options["margin"] is None else options["margin"]
    values = []
    for a in range(len(x)):
        for p in positives(a, labels):
            for n in negatives(a, labels):
                z = far(x[a], x[p]) - far(x[a], x[n]) + margin
                z = z - options["direction"] * angle(x[a], x[p], x[n])
                values.append(softplus(z) if options["smooth"] else hinge(z))
    return mean([v for v in values if number(v) > 0])


ORACLES = dict.fromkeys(["cosine", "euclid2", "euclid", "smooth", "direction"], oracle)


def peer_triplet(**arguments):
    def value(x, labels, learned):
        from pytorch_metric_learning import distances, losses

        distance = {"cosine": distances.CosineSimilarity(), "euclid": distances.LpDistance()}.get(
            arguments["geometry"], distances.LpDistance(power=2, normalize_embeddings=False)
        )
        options = {"margin": MARGINS[arguments["geometry"]], "smooth_loss": arguments.get("smooth", False)}
        return losses.TripletMarginLoss(distance=distance, **options)(x, labels)

    return value


PEERS = {
    "cosine": Peer("TripletMarginLoss(CosineSimilarity)", peer_triplet(geometry="cosine")),
    "euclid2": Peer("TripletMarginLoss(LpDistance(power=2))", peer_triplet(geometry="euclid2")),
    "euclid": Peer("TripletMarginLoss(LpDistance)", peer_triplet(geometry="euclid")),
    "smooth": Peer("TripletMarginLoss(smooth_loss)", peer_triplet(geometry="cosine", smooth=True)),
}


ONE = {"tuples": Triplets(*torch.tensor([[0], [1], [2]])), "geometry": "euclid2", "margin": 2.0, "sphere": True}
WORKED = [
    ((A, A_LABELS), {"reduction": "sum"}, 0.05685378),
    ((A, A_LABELS), {"reduction": "mean"}, 0.00236891),
    ((A, A_LABELS), {"geometry": "euclid2", "reduction": "sum"}, 0.11370757),
    ((B, B_LABELS), {"reduction": "sum"}, 8.36065329),
    ((B, B_LABELS), {}, 0.55737689),
    ((B, B_LABELS), {"geometry": "euclid2", "reduction": "sum"}, 16.72130659),
    ((B, B_LABELS), {"geometry": "euclid2"}, 1.11475377),
    ((circle(0, 40, 100), torch.tensor([0, 0, 1])), ONE, 0.12061476),
    ((circle(0, 40, 100), torch.tensor([0, 0, 1])), {**ONE, "direction": 0.3}, 0.0),
]


def test_cosines_of_raw_vectors_are_refused():
    with pytest.raises(UserError, match="sphere=False"):
        triplet(A, A_LABELS, geometry="cosine", sphere=False)
