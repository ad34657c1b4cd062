"""A proxy or classification loss over a million classes on a laptop: exact, without sampling, in tiles."""

import argparse
import sys
import time

import torch

import similis

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--classes", type=int, default=1_000_000)
parser.add_argument("--dim", type=int, default=128)
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--loss", default="proxy_anchor", help="for example arcface, normface, proxy_nca_pp")
parser.add_argument("--steps", type=int, default=2)
asked = parser.parse_args()


def peak_mb() -> float:
    """The most memory that this process has had (Linux and macOS)."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


torch.manual_seed(0)
criterion = similis.loss(asked.loss, num_classes=asked.classes, dim=asked.dim)
optimiser = torch.optim.SGD(criterion.parameters(), lr=1.0)  # Adam keeps two more copies of the proxies
held = sum(p.numel() * p.element_size() for p in criterion.parameters()) / 2**20
print(f"{asked.classes:,} classes: proxies {held:.0f} MB, their gradient as much; peak so far {peak_mb():.0f} MB")
for step in range(asked.steps):
    embeddings = torch.randn(asked.batch, asked.dim, requires_grad=True)  # in place of a network's output
    begun = time.perf_counter()
    value = criterion(embeddings, torch.randint(asked.classes, (asked.batch,)))
    value.backward()
    optimiser.step()
    optimiser.zero_grad()
    print(f"step {step}: loss {value.item():.3f}, {time.perf_counter() - begun:.1f} s, peak {peak_mb():.0f} MB")
