"""ProxyAnchor: oracle from the paper, worked numbers."""

from tests.batches import A_LABELS, B_LABELS, PROXIES_A, PROXIES_B, A, B
from tests.plain import dot, lse1, mean, on_sphere
from tests.proof import Peer, proxy_peer


def parts(x, labels, proxies, scale, margin):
    """What pulls samples to the proxies of their classes, and what pushes the others away."""
    pull, push = [], []
    for c, w in enumerate(proxies):
        own = [-scale * (dot(x[i], w) - margin) for i in range(len(x)) if labels[i] == c]
        other = [scale * (dot(x[i], w) + margin) for i in range(len(x)) if labels[i] != c]
        pull += [lse1(own)] if own else []
        push.append(lse1(other))
    return mean(pull), mean(push)


def oracle(x, labels, learned, options):
    return sum(parts(on_sphere(x), labels, on_sphere(learned["proxies"]), options["scale"], options["margin_cos"]))


ORACLES = {"default": oracle}


PEERS = {"default": Peer("ProxyAnchorLoss", proxy_peer("ProxyAnchorLoss", margin=0.1, alpha=32))}


WORKED = [
    ((A, A_LABELS, PROXIES_A), {}, 23.19609610),
    ((B, B_LABELS, PROXIES_B), {}, 33.39653936),
    ((A[:3], A_LABELS[:3], PROXIES_A), {}, 21.75250568),
]
