"""Runs as Ray tasks, on this machine or on a cluster: python examples/ray_tasks.py [--address auto]."""

import argparse
import os

import ray

import similis

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--address", default="local", help="auto for a running cluster")
parser.add_argument("--losses", nargs="+", default=["proxy_anchor", "multi_similarity"])
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--runs", default=os.path.abspath("runs"), help="a folder that all nodes see")  # noqa: PTH100
asked = parser.parse_args()


@ray.remote(num_cpus=1, max_retries=3)  # a task that lost its node starts again and resumes from its checkpoint
def recall(loss: str) -> float:
    """Recall@1 on unseen classes after training with a loss."""
    spec = {
        "data": {"source": "synthetic?classes=32&images=8&size=24", "validation_share": 0.25},
        "model": {"backbone": "small_conv", "weights": None, "dim": 16, "image_size": 24, "freeze_batch_norm": False},
        "objective": {"loss": loss},
        "training": {"epochs": asked.epochs, "batch_size": 40, "lr": 1e-3},
    }
    return similis.train(spec, runs=asked.runs, device="cpu").test["recall@1"]


ray.init(address=asked.address, **({"num_cpus": 2, "include_dashboard": False} if asked.address == "local" else {}))
for loss, found in zip(asked.losses, ray.get([recall.remote(loss) for loss in asked.losses]), strict=True):
    print(f"{loss}: R@1 {100 * found:.1f} % (one run each: `similis compare` says whether a difference is real)")
ray.shutdown()
