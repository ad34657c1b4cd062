"""Before and after: the network as it was before training, on the test images of a run, and whether training helped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from similis.networks.embedder import Embedder
from similis.retrieval.embed import embed
from similis.retrieval.evaluate import Evaluation
from similis.retrieval.intervals import mean_interval
from similis.run.evaluation import judge_of
from similis.run.features import feature_key
from similis.run.machine import Machine
from similis.run.network import Network, pixels_of
from similis.run.parts import Source, images_for
from similis.run.spec import ModelSpec, RunSpec
from similis.training.tensors import cached_tensors
from similis.values import Embedded

COMPARED = ("recall@1", "map@r")
CACHE = ".untouched"  # below the folder of all runs


def measure_untouched(
    spec: RunSpec, machine: Machine, source: Source, trained: Evaluation
) -> tuple[dict[str, Any], ...]:
    """The pretrained network at its own resolution and at the run's, each with what training has gained over it.

    Args:
        spec: of the run.
        machine: embeddings are kept below its root, and shared by all runs on the same images.
        source: the data with its split.
        trained: the finished model on the test images.

    Returns:
        For each resolution: ``pixels`` of a side (None for vectors), ``weights``, the means of R@1 and MAP@R, and
        ``gain``: metric -> difference of the means, lower and upper end of its interval over classes.
    """
    rows: list[dict[str, Any]] = []
    for model in untouched_networks(spec, machine):
        found = embed_test(model, spec, machine, source)
        before = evaluate_embedded(found, machine, source)
        labels = found.labels[before.queries]
        gain = {
            name: mean_interval(trained.per_query[name] - before.per_query[name], labels)
            for name in COMPARED
            if len(torch.unique(labels)) > 1
        }
        rows.append(
            {
                "pixels": pixels_of(model),
                "pretrained": spec.model.weights is not None,
                **{name: before.means[name] for name in COMPARED},
                "gain": {name: list(interval) for name, interval in gain.items()},
            }
        )
    return tuple(rows)


def evaluate_embedded(found: Embedded, machine: Machine, source: Source) -> Evaluation:
    """R@1 and MAP@R of the embeddings of a network that nothing was trained on."""
    there = found._replace(vectors=found.vectors.to(machine.chosen))
    return judge_of(found, source.manifest)(there, ks=(1,), collapse_checks=False)


def untouched_networks(spec: RunSpec, machine: Machine) -> list[Embedder]:
    """The pretrained network without a head, at its own resolution, and at the run's if that is another."""
    m = spec.model
    plain = ModelSpec(backbone=m.backbone, weights=m.weights, dim=None, options=m.options)
    own = Network(plain, normalise=True, seed=spec.seed)
    networks = [own.built, own.resized(m.image_size, m.resize).built]
    different = networks[0].preprocessing != networks[1].preprocessing
    return [network.to(machine.chosen).eval() for network in networks[: 1 + different]]


def embed_test(model: Embedder, spec: RunSpec, machine: Machine, source: Source) -> Embedded:
    """Embeddings of the test images by a pretrained network, read from the cache if they are there."""
    rows = source.split.test
    key = feature_key(model, source, spec, pooling="own", rows=rows)

    def compute() -> dict[str, torch.Tensor]:
        once = replace(machine, cache_bytes=0)  # no image is read twice
        loader = images_for(model, source.manifest, once, policies=("eval",))
        batches = loader.ordered(rows, batch_size=spec.evaluation.batch_size)
        return embed(model, batches, count=len(rows))._asdict()

    path = machine.root / CACHE / f"{key}.safetensors"
    return Embedded(**cached_tensors(path, compute, {"format": "similis-untouched-1", "contents": key}))


def best_before(before: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The better row: what you get without training."""
    return max(before, key=lambda row: row["recall@1"])


def training_verdict(before: Sequence[Mapping[str, Any]]) -> str:
    """One sentence that says whether training helped, against the better pretrained network.

    Example:
        >>> row = {"pixels": 224, "pretrained": True, "recall@1": 0.5, "gain": {"recall@1": [0.1, 0.05, 0.15]}}
        >>> training_verdict([row])
        'Training helped: R@1 +10.0 points (95 % interval +5.0 to +15.0) over the pretrained network at 224 pixels.'
    """
    row = best_before(before)
    name = "the pretrained network" if row["pretrained"] else "the untrained network"
    name += "" if row["pixels"] is None else f" at {row['pixels']} pixels"
    if not row["gain"]:
        return f"No comparison with {name}: the test images have a single class."
    value, low, high = (100 * part for part in row["gain"]["recall@1"])
    span = f"R@1 {value:+.1f} points (95 % interval {low:+.1f} to {high:+.1f})"
    found, least, most = (100 * part for part in row["gain"].get("map@r", (0.0, 0.0, 0.0)))
    word = "better" if least > 0 else "worse" if most < 0 else ""
    beside = f" MAP@R is {word}: {found:+.1f} points ({least:+.1f} to {most:+.1f})." if word else ""
    if low > 0:
        return f"Training helped: {span} over {name}.{beside}"
    if high < 0:
        advice = "use similis.pretrained, or train with a smaller lr" if row["pretrained"] else "train with another lr"
        return f"Training hurt: {span} against {name}; {advice}.{beside}"
    return f"No significant difference: {span} against {name}.{beside}"
