"""Run a specification: idempotent, resumable, the same numbers on every call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from similis.data.examples import FeatureData
from similis.data.loader import Loader
from similis.data.manifest import Manifest
from similis.data.own_data import OWN, keep_transform, open_dataset
from similis.networks.backbone import HANDED_OVER
from similis.networks.own_network import keep_network
from similis.retrieval.evaluate import Evaluation
from similis.run.address import NUMERICS, environment
from similis.run.checks import check_run
from similis.run.evaluation import evaluate_test_split, validation_recall
from similis.run.fit import choose_share, load_chosen, run_stage
from similis.run.frozen_backbone import begin_with_whitening, fit_head, frozen_features
from similis.run.machine import Machine, Watch
from similis.run.parts import HeadOnly, Parts, build_loader
from similis.run.places import claim_run, find_run, remove_unbegun, run_name, sole_writer
from similis.run.prepared import Prepared, prepare
from similis.run.result import RunResult, read_result
from similis.run.spec import RunSpec, parse_spec, read_spec
from similis.run.stage import Selection, Stage
from similis.run.trained_on import read_trained_on, trained_part, write_trained_on
from similis.run.untouched import measure_untouched
from similis.run.warm_start import start_folder
from similis.training.allocator import keep_freed_memory
from similis.training.checkpoint import previous_checkpoint
from similis.training.folder import RunFolder
from similis.training.optimisers import interpolate
from similis.training.rank_zero import is_first, wait_for_all
from similis.training.tensors import save_model, save_tensors
from similis.values import UserError


def train(
    spec: RunSpec | Mapping[str, Any] | str | Path,
    *,
    runs: str | Path = "runs",
    workers: int = 0,
    device: str = "auto",
    network: nn.Module | None = None,
    data: Any = None,
    transform: Callable[[Any], Any] | None = None,
    named: Mapping[str, str] | None = None,
) -> RunResult:
    """Train a model, select it and evaluate it on classes that it has never seen.

    The same call again returns the same result at once; after a crash it goes on from the last checkpoint.

    Args:
        spec: a specification, its values as a mapping, or the path of a YAML or JSON file.
        runs: folder of all runs.
        workers: processes that load images; they change no number.
        device: that computes: ``auto``, ``cpu``, ``cuda``, ``mps``, ``xpu``, ...
        network: your own, images (B, 3, H, W) -> vectors (B, D) or a map (B, C, H, W), with the weights to begin with;
            instead of ``model.backbone``. ``similis.load(result.folder, network=...)`` opens the model again.
        data: your own, a map-style data set of (image, label) or a ``datasets.Dataset``; instead of ``data.source``.
        transform: your own, from an image of Pillow's to one of the network's size, before normalisation; instead of
            ``training.policy``. Its random draws depend on the seed, the epoch and the image.
        named: names for ``network``, ``data`` or ``transform`` instead of hashes of their code and contents.

    Example:
        >>> import tempfile
        >>> small = {
        ...     "data": {"source": "synthetic?classes=8&images=6&size=16"},
        ...     "model": {"backbone": "small_conv", "weights": None, "dim": 8, "image_size": 16},
        ...     "training": {"epochs": 1, "batch_size": 10},
        ... }
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = train(small, runs=folder)
        >>> sorted(result.test)[:3]
        ['map@r', 'mrr', 'precision@1']
    """
    if isinstance(spec, str | Path):
        spec = read_spec(Path(spec))
    machine, manifest = Machine(root=Path(runs), workers=workers, device=device), None
    if named or not (network is None and data is None and transform is None):
        values = spec.model_dump(mode="json") if isinstance(spec, RunSpec) else dict(spec)
        spec, manifest = hand_over(values, network, data, transform, named or {})
    spec = spec if isinstance(spec, RunSpec) else parse_spec(spec)
    return run_prepared(prepare(spec, machine, manifest))


def hand_over(
    values: dict[str, Any],
    network: nn.Module | None,
    data: Any,
    transform: Callable[[Any], Any] | None,
    named: Mapping[str, str],
) -> tuple[dict[str, Any], Manifest | None]:
    """The values of a specification with the identities of what was handed over, and the manifest of its data."""
    if unknown_names := named.keys() - {"network", "data", "transform"}:
        raise UserError(f"named has {sorted(unknown_names)}; it names network, data or transform")
    if network is not None:
        own = {"backbone": keep_network(network, named.get("network")), "weights": None}
        values = {**values, "model": {**values.get("model", {}), **own}}
    if transform is not None:
        own = {"policy": "own", "transform": keep_transform(transform, named.get("transform"))}
        values = {**values, "training": {**values.get("training", {}), **own}}
    if data is None:
        return values, None
    return {**values, "data": {**values.get("data", {}), "source": OWN}}, open_dataset(data, named.get("data"))


def run(spec: RunSpec, machine: Machine | None = None, watch: Watch | None = None) -> RunResult:
    """Train, select, evaluate; or return what an earlier call has found.

    A second call with the same specification returns the result of the first. A call after a crash
    goes on from the last checkpoint and ends with the same numbers.

    Args:
        spec: everything that decides the numbers.
        machine: where runs are kept, worker processes, memory for images; decides no number.
        watch: callbacks, for a display.
    """
    return run_prepared(prepare(spec, machine or Machine()), watch)


def run_prepared(run: Prepared, watch: Watch | None = None) -> RunResult:
    """:func:`run` with what was opened and built for it before."""
    keep_freed_memory()
    root, others = run.machine.root, run.machine.communicator
    if others is None and (done := find_result(run)):
        return done
    check_run(run.spec, run.source)
    new = is_first(others) and find_run(root, run.address) is None
    folder = claim_run(root, run_name(run.spec), run.address, others)
    with sole_writer(folder, others):
        try:
            return run_in_folder(run, watch or Watch(), folder)
        except Exception:
            if new:
                remove_unbegun(folder)
            raise


def find_result(run: Prepared) -> RunResult | None:
    """What an earlier call has found; None if the run is not done."""
    known = find_run(run.machine.root, run.address)
    return None if known is None else read_done(RunFolder(known, run.address), run.spec)


def read_done(folder: RunFolder, spec: RunSpec) -> RunResult | None:
    """The result in a folder, which then needs nothing that was kept for a crash; None if the run is not done."""
    done = read_result(folder, folder.address, spec)
    for stage in ("select", "refit") if done is not None else ():
        last = folder.checkpoint(stage)
        folder.tidy(path.name for path in (last, previous_checkpoint(last), folder.best(stage)))
    return done


def run_in_folder(run: Prepared, watch: Watch, folder: RunFolder) -> RunResult:
    """Read the result in the folder, or compute and write it; the caller holds the folder's lock."""
    others = run.machine.communicator
    wait_for_all(others)  # the first holds the folder: from here on all see the same of it
    done = read_done(folder, run.spec)
    wait_for_all(others)
    if done is not None:
        return done
    folder.write("spec.json", run.spec.model_dump(mode="json"))
    folder.write("environment.json", environment())
    result = compute_result(run, watch, folder)
    folder.write("result.json", result.to_json())
    wait_for_all(others)
    found = read_done(folder, run.spec)
    return result if found is None or is_first(others) else found


def compute_result(run: Prepared, watch: Watch, folder: RunFolder) -> RunResult:
    """Go through the training steps of the protocol, then evaluate."""
    spec, steps = run.spec, run.steps
    parts, chosen = train_steps(run, watch, folder)
    first = is_first(run.machine.communicator)
    test, before = measure_model(run, parts, watch, folder) if first else (None, ())
    own = {"share": chosen.share} if spec.training.interpolate else {}
    own |= {} if chosen.shrinkage is None else {"shrinkage": chosen.shrinkage}
    return RunResult(
        address=folder.address,
        folder=folder.path,
        spec=spec,
        epochs=chosen.epoch,
        trained_on=steps[-1].trained_on if steps else "nothing",
        selected_on="nothing" if chosen.value is None else "test" if steps[0].opens_test else "validation",
        validation={} if chosen.value is None else {"recall@1": chosen.value},
        history=chosen.history,
        test={} if test is None else dict(test.means),
        whole={} if test is None else dict(test.whole),
        excluded=0 if test is None else test.excluded,
        before=before,
        facts=collect_facts(run) | own,
        cost={"mining_seconds": round(chosen.mining_seconds, 3)} if spec.sampler == "mined" else {},
    )


def train_steps(run: Prepared, watch: Watch, folder: RunFolder) -> tuple[Parts, Selection]:
    """The model after all training steps, what validation chose for it, and the time of mining in all of them."""
    if run.spec.model.is_closed_form:
        return fit_head(run, prepare_parts(run, watch=watch), folder)
    spec, steps, shares, mining = run.spec, run.steps, run.spec.training.interpolate, 0.0
    start = run.network.built.state_dict()
    chosen = Selection(steps[0].epochs if steps else 0, None, (), share=shares[0] if shares else 1.0)
    parts = prepare_parts(run, watch=watch)
    for number, step in enumerate(steps):
        parts = prepare_parts(run, parts.loader, watch) if number else parts
        if step.opens_test:  # protocol default: the literature's habit, and on record
            folder.log({"stage": step.name, "step": 0, "opened": "test split", "images": len(step.judged_on)})
        recall = partial(validation_recall, rows=step.judged_on, spec=spec, loader=parts.loader)
        validate = recall if len(step.judged_on) else None
        if spec.model.head == "whitening+trained":
            begin_with_whitening(parts, run.source.manifest.labels, step.rows)
        stage = Stage(step.name, run, parts, step.rows, chosen.epoch, folder, watch, validate)
        found = run_stage(stage)
        mining += found.mining_seconds
        if step.name == "select":
            chosen = choose_share(stage, found, start) if shares else found
            folder.write("selection.json", asdict(chosen))
    if chosen.epoch:
        load_chosen(parts.model, folder, steps[-1].name)
    if shares:
        interpolate(parts.model, start, chosen.share)
    return parts, replace(chosen, mining_seconds=mining)


def measure_model(
    run: Prepared, parts: Parts, watch: Watch, folder: RunFolder
) -> tuple[Evaluation | None, tuple[dict[str, Any], ...]]:
    """Save the model and what it was trained on; measure it, and the network before training, on the test images."""
    spec, source = run.spec, run.source
    save_model(folder.model, parts.model, {"contents": f"{folder.address}/model"})
    seen = torch.cat([source.split.train, source.split.validation])
    own, start = trained_part(source.manifest.select(seen if run.steps else seen[:0])), start_folder(spec.model.weights)
    write_trained_on(folder.path, own if start is None else own.join(read_trained_on(start)))
    if not spec.evaluation.test or not len(source.split.test):
        return None, ()
    test = evaluate_test_split(parts, source, spec, folder, watch)
    if not spec.evaluation.untouched:
        return test, ()
    before = measure_untouched(spec, run.machine, source, test, watch)
    metadata = {"format": "similis-before-1", "contents": f"{folder.address}/before"}
    save_tensors(folder.path / "before.safetensors", before.kept, metadata)
    return test, before.rows


def prepare_parts(run: Prepared, loader: Loader | None = None, watch: Watch | None = None) -> Parts:
    """A fresh copy of the model, and a loader unless one is given; with a frozen backbone, one of its features."""
    spec, machine = run.spec, run.machine
    if spec.model.keeps_backbone and spec.model.pooled_by == "gem":
        raise UserError("gem learns, so it needs whole maps, which are not cached; choose gap+gmp, or model.trains=all")
    model, trains_head = run.network.copy(machine.chosen), spec.model.keeps_backbone
    if loader is None:
        once = replace(machine, cache_bytes=0) if trains_head else machine  # each image is embedded once
        loader = build_loader(model, run.source, spec, once)
        if trains_head:
            features = frozen_features(model, loader, run, watch or Watch())
            loader = Loader(FeatureData(features, run.source.manifest.labels), device=machine.chosen)
    return Parts(model, HeadOnly(model) if trains_head else model, loader)


def collect_facts(run: Prepared) -> dict[str, Any]:
    """What must stand beside a number."""
    source, model = run.source, run.network.built
    parts = {part: getattr(source.split, part) for part in ("train", "validation", "test")}
    return {
        "data": source.manifest.fingerprint(),
        "split": source.split.fingerprint,
        "images": {part: len(rows) for part, rows in parts.items()},
        "classes": {part: len(source.manifest.classes(rows)) for part, rows in parts.items()},
        "weights": model.weights_hash,
        "preprocessing": None if model.preprocessing is None else asdict(model.preprocessing),
        "device": run.machine.chosen.type,
        "numerics": NUMERICS,
        **({"handed over": own} if (own := describe_own(run)) else {}),
    }


def describe_own(run: Prepared) -> dict[str, str]:
    """What of a run was handed over in Python, each with the hash or the name that it is known by."""
    spec = run.spec
    own = {
        "network": spec.model.backbone if spec.model.backbone.startswith(HANDED_OVER) else None,
        "data": run.manifest.name if spec.data.source == OWN else None,
        "transform": spec.training.transform,
    }
    return {part: name for part, name in own.items() if name is not None}
