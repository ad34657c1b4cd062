"""Run a specification: idempotent, resumable, the same numbers on every call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from similis.networks.embedder import Embedder
from similis.run.address import NUMERICS, address, code_version, environment, files_fingerprint
from similis.run.checks import check_run
from similis.run.evaluation import evaluate_test_split, validation_recall
from similis.run.features import frozen_features
from similis.run.fit import choose_share, load_chosen, run_stage
from similis.run.machine import Machine, Silence, Watch
from similis.run.parts import (
    HeadOnly,
    Parts,
    Source,
    build_loader,
    build_model,
    feature_loader,
    open_source,
    resolve_sampler,
)
from similis.run.places import claim_run, find_run, remove_unbegun, run_name, sole_writer, with_whole_paths
from similis.run.protocol import training_steps
from similis.run.recorder import chosen_path
from similis.run.result import RunResult, read_result
from similis.run.spec import RunSpec, parse_spec, read_spec
from similis.run.stage import Selection, Stage
from similis.run.trained_on import trained_part, write_trained_on
from similis.run.untouched import measure_untouched
from similis.training.allocator import keep_freed_memory
from similis.training.checkpoint import previous_checkpoint
from similis.training.folder import RunFolder
from similis.training.optimisers import interpolate
from similis.training.rank_zero import is_first, wait_for_all
from similis.training.tensors import save_model
from similis.values import UserError


def train(
    spec: RunSpec | Mapping[str, Any] | str | Path,
    *,
    runs: str | Path = "runs",
    workers: int = 0,
    device: str = "auto",
) -> RunResult:
    """Train a model, select it and evaluate it on classes that it has never seen.

    The same call again returns the same result at once; after a crash it goes on from the last checkpoint.

    Args:
        spec: a specification, its values as a mapping, or the path of a YAML or JSON file.
        runs: folder of all runs.
        workers: processes that load images; they change no number.
        device: that computes: ``auto``, ``cpu``, ``cuda``, ``mps``, ``xpu``, ...

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
    elif not isinstance(spec, RunSpec):
        spec = parse_spec(spec)
    return run(spec, Machine(root=Path(runs), workers=workers, device=device))


def run(spec: RunSpec, machine: Machine | None = None, watch: Watch | None = None) -> RunResult:
    """Train, select, evaluate; or return what an earlier call has found.

    A second call with the same specification returns the result of the first. A call after a crash
    goes on from the last checkpoint and ends with the same numbers.

    Args:
        spec: everything that decides the numbers.
        machine: where runs are kept, worker processes, memory for images; decides no number.
        watch: a display.
    """
    machine, watch = machine or Machine(), watch or Silence()
    if machine.keep_memory:
        keep_freed_memory()
    source, spec, others = open_source(spec, machine), with_whole_paths(spec), machine.communicator
    done = find_result(spec, machine, source) if others is None else None
    if done is not None:
        tidy(RunFolder(done.folder))
        return done
    place = address_of(spec, machine, source)
    check_run(spec, source)
    new = is_first(others) and find_run(machine.root, place) is None
    folder = claim_run(machine.root, run_name(spec), place, others)
    with sole_writer(folder, others):
        try:
            return run_in_folder(spec, machine, watch, source, folder)
        except Exception:
            if new:
                remove_unbegun(folder)
            raise


def address_of(spec: RunSpec, machine: Machine, source: Source) -> str:
    """The address of a run on its data and this machine's kind of device."""
    spec = with_whole_paths(spec)
    return address(spec, source.split.fingerprint, files_fingerprint(spec), machine.chosen.type)


def find_result(spec: RunSpec, machine: Machine, source: Source) -> RunResult | None:
    """What an earlier call has found; None if the run is not done."""
    place = address_of(spec, machine, source)
    known = find_run(machine.root, place)
    return None if known is None else read_result(RunFolder(known, place), place)


def run_in_folder(spec: RunSpec, machine: Machine, watch: Watch, source: Source, folder: RunFolder) -> RunResult:
    """The result in the folder, or else computed and put there; nobody else writes in it meanwhile."""
    others = machine.communicator
    wait_for_all(others)  # the first holds the folder: from here on all see the same of it
    done = read_result(folder, folder.address)
    wait_for_all(others)
    if done is not None:
        tidy(folder)
        return done
    folder.write("spec.json", spec.model_dump(mode="json"))
    folder.write("environment.json", environment())
    result = compute_result(spec, machine, watch, source, folder)
    folder.write("result.json", result.to_json())
    wait_for_all(others)
    if not is_first(others):
        return read_result(folder) or result
    tidy(folder)
    watch.on_end(result.to_json())
    return result


def tidy(folder: RunFolder) -> None:
    """The result stands: what was kept for a crash can go."""
    for stage in ("select", "refit"):
        last = folder.checkpoint(stage)
        folder.tidy(path.name for path in (last, previous_checkpoint(last), chosen_path(folder, stage)))


def compute_result(spec: RunSpec, machine: Machine, watch: Watch, source: Source, folder: RunFolder) -> RunResult:
    """Go through the training steps of the protocol, then evaluate."""
    others, steps = machine.communicator, training_steps(spec, source.split)
    parts = prepare_parts(spec, machine, source)
    shares = spec.training.interpolate
    start = {name: value.clone() for name, value in parts.model.state_dict().items()} if shares else {}
    share = shares[0] if shares else 1.0
    chosen, mining = Selection(steps[0].epochs if steps else 0, None, (), share=share), 0.0
    for number, step in enumerate(steps):
        if number:
            parts = prepare_parts(spec, machine, source)
        if step.opens_test:  # protocol default: the literature's habit, and on record
            folder.log({"stage": step.name, "step": 0, "opened": "test split", "images": len(step.judged_on)})
        judge = partial(validation_recall, rows=step.judged_on, spec=spec, loader=parts.loader)
        validate = judge if len(step.judged_on) else None
        stage = Stage(step.name, spec, parts, source, step.rows, chosen.epoch, folder, watch, validate)
        found = run_stage(stage := stage.share_with(machine))
        mining += found.mining_seconds
        if step.name == "select":
            chosen = choose_share(stage, found, start) if start else found
            folder.write("selection.json", asdict(chosen))
    if chosen.epoch:
        load_chosen(parts.model, folder, steps[-1].name)
    if start:
        interpolate(parts.model, start, chosen.share)
    test = None
    if is_first(others):
        save_model(folder.model, parts.model, {"contents": f"{folder.address}/model"})
        seen = torch.cat([source.split.train, source.split.validation] if steps else [source.split.train[:0]])
        write_trained_on(folder.path, trained_part(source.manifest.select(seen)))
        if spec.evaluation.test and len(source.split.test):
            watch.on_phase(f"evaluating on {len(source.split.test):,} test images")
        test = evaluate_test_split(parts, source, spec, folder)
        if test is not None and spec.evaluation.untouched:
            watch.on_phase("evaluating the network before training on the same images")
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
        before=() if test is None or not spec.evaluation.untouched else measure_untouched(spec, machine, source, test),
        facts=collect_facts(parts.model, source, machine) | ({"share": chosen.share} if start else {}),
        cost={"mining_seconds": round(mining, 3)} if resolve_sampler(spec) == "mined" else {},
    )


def prepare_parts(spec: RunSpec, machine: Machine, source: Source) -> Parts:
    """A fresh model and its loader; with a frozen backbone, a loader of its features."""
    if spec.model.trains == "head" and spec.model.pooled_by == "gem":
        raise UserError("gem learns, so it needs whole maps, which are not cached; choose gap+gmp, or model.trains=all")
    model = build_model(spec, machine)
    loader = build_loader(model, source, spec, machine)
    if spec.model.trains == "head":
        features = frozen_features(model, loader, source, spec, machine)
        return Parts(model, HeadOnly(model), feature_loader(features, source, machine))
    return Parts(model, model, loader)


def collect_facts(model: Embedder, source: Source, machine: Machine) -> dict[str, Any]:
    """What must stand beside a number."""
    parts = {part: getattr(source.split, part) for part in ("train", "validation", "test")}
    return {
        "data": source.manifest.fingerprint(),
        "split": source.split.fingerprint,
        "images": {part: len(rows) for part, rows in parts.items()},
        "classes": {part: len(source.manifest.classes(rows)) for part, rows in parts.items()},
        "weights": model.weights_hash,
        "preprocessing": None if model.preprocessing is None else asdict(model.preprocessing),
        "device": machine.chosen.type,
        "numerics": NUMERICS,
        "code": code_version(),
    }
