"""Before and after: the network as it was before training, on the test images of a run, and whether training helped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from similis.networks.backbone import HANDED_OVER
from similis.networks.embedder import Embedder
from similis.retrieval.embed import embed
from similis.retrieval.evaluate import Evaluation
from similis.retrieval.intervals import mean_interval
from similis.run.evaluation import answers_of, judge_of
from similis.run.frozen_backbone import MOST_DIM, feature_key, fit_split
from similis.run.machine import Machine, Watch
from similis.run.network import Network, pixels_of
from similis.run.parts import Source, images_for
from similis.run.spec import ModelSpec, RunSpec
from similis.run.warm_start import start_folder
from similis.sphere import unit
from similis.training.closed_form import can_fit
from similis.training.tensors import cached_tensors
from similis.values import Embedded

COMPARED = ("recall@1", "map@r")
CACHE = ".untouched"  # below the folder of all runs


class Before(NamedTuple):
    """What was measured before training, and the vectors and answers of its best row without labels."""

    rows: tuple[dict[str, Any], ...]
    kept: dict[str, Tensor]


def measure_untouched(spec: RunSpec, machine: Machine, source: Source, trained: Evaluation, watch: Watch) -> Before:
    """The pretrained network at its own resolution and at the run's, and whitened, each with the gain of training.

    Args:
        spec: of the run.
        machine: embeddings are kept below its root, and shared by all runs on the same images.
        source: the data with its split.
        trained: the finished model on the test images.
        watch: is told of every pass over images.

    Returns:
        For each resolution: ``pixels`` of a side (None for vectors), ``weights``, the means of R@1 and MAP@R,
        ``gain``: metric -> difference of the means, lower and upper end of its interval over classes, and how many
        queries training ``fixed`` and ``broke``. The last row has ``head``: features at the network's own resolution
        behind within-class whitening.
    """
    rows: list[dict[str, Any]] = []
    kept: list[dict[str, Tensor]] = []
    networks = untouched_networks(spec, machine)
    vectors: list[tuple[Embedder, Embedded, dict[str, str]]]
    vectors = [
        (model, embed_rows(model, spec, machine, source, source.split.test, watch=watch), {}) for model in networks
    ]
    start = start_folder(spec.model.weights)
    if spec.model.weights is not None and not spec.model.is_closed_form and start is None:
        fitted = whiten(networks[0], vectors[0][1], spec, machine, source, watch=watch)
        vectors += [] if fitted is None else [(networks[0], fitted, {"head": "whitening"})]
    for model, found, more in vectors:
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
                **({} if start is None else {"start": start.name}),
                **{name: before.means[name] for name in COMPARED},
                "gain": {name: list(interval) for name, interval in gain.items()},
                **count_changes(before.per_query["recall@1"], trained.per_query["recall@1"]),
                **more,
            }
        )
        right = {"recall@1": before.per_query["recall@1"], "queries": found.ids[before.queries]}
        kept.append({**found._asdict(), **right, **answers_of(before, found)})
    best = best_before(rows)
    return Before(tuple(rows), next(each for row, each in zip(rows, kept, strict=True) if row is best))


def count_changes(before: Tensor, after: Tensor) -> dict[str, int]:
    """How many queries training fixed and broke, by the recall at 1 of each (Q,); NaN is no query."""
    return {
        "queries": int((~after.isnan()).sum()),
        "fixed": int(((before == 0) & (after == 1)).sum()),
        "broke": int(((before == 1) & (after == 0)).sum()),
    }


def evaluate_embedded(found: Embedded, machine: Machine, source: Source) -> Evaluation:
    """R@1 and MAP@R of the embeddings of a network that nothing was trained on."""
    there = found._replace(vectors=found.vectors.to(machine.chosen))
    return judge_of(found, source.manifest)(there, ks=(1,))


def untouched_networks(spec: RunSpec, machine: Machine) -> list[Embedder]:
    """What a run begins with: the pretrained network without a head, at its own resolution and at the run's."""
    m = spec.model
    if start_folder(m.weights) is not None:  # the model it goes on from, as it is
        return [Network(m, normalise=True, seed=spec.seed).built.to(machine.chosen).eval()]
    size = m.image_size if m.backbone.startswith(HANDED_OVER) else None  # one of the user's has no size of its own
    plain = ModelSpec(backbone=m.backbone, weights=m.weights, dim=None, options=m.options, image_size=size)
    own = Network(plain, normalise=True, seed=spec.seed)
    networks = [own.built, own.resized(m.image_size, m.resize).built]
    different = networks[0].preprocessing != networks[1].preprocessing
    return [network.to(machine.chosen).eval() for network in networks[: 1 + different]]


def whiten(
    model: Embedder, test: Embedded, spec: RunSpec, machine: Machine, source: Source, *, watch: Watch
) -> Embedded | None:
    """The test vectors behind whitening that is fitted on the training classes; None if it cannot be fitted."""
    split = source.split
    rows = torch.cat([split.train, split.validation])
    labels = source.manifest.labels
    if not can_fit(labels[rows]):
        return None
    known = embed_rows(model, spec, machine, source, rows, watch=watch)
    features = known.vectors.new_zeros(len(labels), known.vectors.shape[1])
    features[rows] = known.vectors
    fitted = fit_split("whitening", features, labels, split, min(spec.model.dim or MOST_DIM, features.shape[1]))
    return test._replace(vectors=unit(fitted.map(test.vectors)))


def embed_rows(
    model: Embedder, spec: RunSpec, machine: Machine, source: Source, rows: Tensor, *, watch: Watch | None = None
) -> Embedded:
    """Embeddings of images by a pretrained network, read from the cache if they are there."""
    key = feature_key(model, source, spec, pooling="own", rows=rows)

    def compute() -> dict[str, Tensor]:
        once = replace(machine, cache_bytes=0)  # no image is read twice
        loader = images_for(model, source.manifest, once, policies=("eval",))
        told, pixels = watch or Watch(), pixels_of(model)
        told.on_phase("before training" if pixels is None else f"before training, {pixels} pixels", len(rows))
        batches = told.follow(loader.ordered(rows, batch_size=spec.evaluation.batch_size))
        return embed(model, batches, count=len(rows))._asdict()

    path = machine.root / CACHE / f"{key}.safetensors"
    return Embedded(**cached_tensors(path, compute, {"format": "similis-untouched-1", "contents": key}))


def best_before(before: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The better row of the pretrained network: what you get without any labels."""
    return max((row for row in before if "head" not in row), key=lambda row: row["recall@1"])


def name_before(row: Mapping[str, Any]) -> str:
    """What a row was measured on, in one word."""
    if "start" in row:
        return "before"
    return "whitened" if "head" in row else "pretrained" if row["pretrained"] else "untrained"


def describe_changes(row: Mapping[str, Any]) -> str:
    """How many queries training fixed and broke, as a sentence.

    Example:
        >>> describe_changes({"queries": 1000, "fixed": 71, "broke": 12})
        'Of 1,000 queries, training fixed 71 and broke 12.'
    """
    return f"Of {row['queries']:,} queries, training fixed {row['fixed']:,} and broke {row['broke']:,}."


def measured_networks(values: Mapping[str, Any]) -> list[tuple[str, float, float, Sequence[float] | None]]:
    """Name, R@1, MAP@R, and the gain of training over it, for each network that a result has measured.

    Args:
        values: of ``result.json``; the trained network comes last and has no gain.
    """
    model, seen = ModelSpec(**values["spec"]["model"]), values["facts"]["preprocessing"]
    rows = [(name_before(row), row["pixels"], row, row["gain"].get("recall@1")) for row in values["before"]]
    own = model.head if model.is_closed_form else "trained"
    rows.append((own, None if seen is None else seen["size"], values["test"], None))
    return [
        (name + ("" if pixels is None else f", {pixels} pixels"), found["recall@1"], found["map@r"], gain)
        for name, pixels, found, gain in rows
    ]


def training_verdict(before: Sequence[Mapping[str, Any]], model: ModelSpec | None = None) -> str:
    """Whether training helped, against the better pretrained network, and what whitening gives without training.

    Example:
        >>> row = {"pixels": 224, "pretrained": True, "recall@1": 0.5, "gain": {"recall@1": [0.1, 0.05, 0.15]}}
        >>> training_verdict([row])
        'Training helped: R@1 +10.0 points (95 % interval +5.0 to +15.0) over the pretrained network at 224 pixels.'
    """
    what = model.head.capitalize() if model is not None and model.is_closed_form else "Training"
    return " ".join([pretrained_verdict(before, what), *(describe_whitened(row) for row in before if "head" in row)])


def describe_whitened(row: Mapping[str, Any]) -> str:
    """What the trained model gains over whitened features of the pretrained network.

    Example:
        >>> describe_whitened({"recall@1": 0.5, "gain": {"recall@1": [0.1, 0.05, 0.15]}})
        'Whitening alone takes seconds: R@1 50.0 %; the trained model has +10.0 points (95 % interval +5.0 to +15.0).'
    """
    value, low, high = (100 * part for part in row["gain"].get("recall@1", (0.0, 0.0, 0.0)))
    spread = f"the trained model has {value:+.1f} points (95 % interval {low:+.1f} to {high:+.1f})"
    return f"Whitening alone takes seconds: R@1 {100 * row['recall@1']:.1f} %; {spread}."


def pretrained_verdict(before: Sequence[Mapping[str, Any]], what: str) -> str:
    """One sentence that says whether it helped, against the better pretrained network."""
    row = best_before(before)
    name = "the pretrained network" if row["pretrained"] else "the untrained network"
    name = f"{row['start']}, which it went on from," if "start" in row else name
    name += "" if row["pixels"] is None else f" at {row['pixels']} pixels"
    if not row["gain"]:
        return f"No comparison with {name}: the test images have a single class."
    value, low, high = (100 * part for part in row["gain"]["recall@1"])
    span = f"R@1 {value:+.1f} points (95 % interval {low:+.1f} to {high:+.1f})"
    found, least, most = (100 * part for part in row["gain"].get("map@r", (0.0, 0.0, 0.0)))
    word = "better" if least > 0 else "worse" if most < 0 else ""
    beside = f" MAP@R is {word}: {found:+.1f} points ({least:+.1f} to {most:+.1f})." if word else ""
    if low > 0:
        return f"{what} helped: {span} over {name}.{beside}"
    if high < 0:
        advice = "use similis.pretrained, or train with a smaller lr" if row["pretrained"] else "train with another lr"
        return f"{what} hurt: {span} against {name}; {advice}.{beside}"
    return f"No significant difference: {span} against {name}.{beside}"
