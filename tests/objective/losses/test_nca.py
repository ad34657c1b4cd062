"""Neighbourhood components analysis: oracle from the definition, worked numbers, scale."""

import pytest
import torch

from similis.objective.losses.nca import nca
from similis.values import UserError
from tests.batches import A_LABELS, B_LABELS, U_LABELS, A, B, U, random_batch
from tests.plain import lse, mean, negatives, on_sphere, positives, squared_distance
from tests.proof import Peer


def oracle(x, labels, learned, options):
    values = []
    for i in range(len(x)):
        near, far = positives(i, labels), negatives(i, labels)
        below = near + far if options["form"] == "prob" else far
        if near and below:
            values.append(
                lse([-options["scale"] * squared_distance(x[i], x[k]) for k in below])
                - lse([-options["scale"] * squared_distance(x[i], x[j]) for j in near])
            )
    return mean(values)


ORACLES = {"prob": oracle, "ratio": oracle}


def peer(x, labels, learned):
    from pytorch_metric_learning import distances, losses

    return losses.NCALoss(distance=distances.LpDistance(power=2, normalize_embeddings=False))(x, labels)


PEERS = {"prob": Peer("NCALoss(LpDistance(power=2, normalize_embeddings=False))", peer)}


WORKED = [
    ((A, A_LABELS), {"form": "prob"}, 0.56641642),
    ((B, B_LABELS), {"form": "prob"}, 0.75757602),
    ((U, U_LABELS), {"form": "prob"}, 1.16992490),
    ((A, A_LABELS), {"form": "ratio"}, -0.34905967),
    ((B, B_LABELS), {"form": "ratio"}, -0.10589731),
]


def test_the_scale_is_that_of_squared_distances():
    x, labels = random_batch(1)
    assert float(nca(x, labels, scale=4.0)) == pytest.approx(float(nca(2 * x, labels)), abs=1e-10)


def test_unit_rows_on_request():
    x, labels = random_batch(1)
    assert float(nca(x, labels, sphere=True)) == pytest.approx(float(nca(on_sphere(x), labels)), abs=1e-12)


def test_one_class_is_certain_and_a_wrong_form_is_named():
    assert float(nca(U, torch.zeros(4, dtype=torch.int64))) == 0
    with pytest.raises(UserError, match="did you mean 'prob'"):
        nca(U, U_LABELS, form="probability")
