"""NT-Xent with labels: oracle over ordered positive pairs, worked numbers."""

from tests.batches import A_LABELS, B_LABELS, A, B
from tests.plain import dot, lse, mean, negatives, on_sphere, positives
from tests.proof import Peer, peer_of


def oracle(x, labels, learned, options):
    x, temperature = on_sphere(x), options["temperature"]
    values = []
    for i in range(len(x)):
        rivals = [dot(x[i], x[k]) / temperature for k in negatives(i, labels)]
        for j in positives(i, labels):
            own = dot(x[i], x[j]) / temperature
            values.append(lse([own, *rivals]) - own)
    return mean(values)


ORACLES = {"default": oracle}


PEERS = {"default": Peer("NTXentLoss(temperature=0.1)", peer_of("NTXentLoss", temperature=0.1))}


WORKED = [
    ((A, A_LABELS), {"temperature": 0.1}, 0.16393798),
    ((B, B_LABELS), {"temperature": 0.1}, 3.40747190),
    ((A, A_LABELS), {"temperature": 0.5}, 0.56641642),
    ((B, B_LABELS), {"temperature": 0.5}, 1.29332602),
]
