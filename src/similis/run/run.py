"""Run a specification: idempotent, resumable, the same numbers on every call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from similis.model.embedder import Embedder
from similis.run.address import NUMERICS, address, code_version, environment, files_fingerprint
from similis.run.checks import check_run
from similis.run.evaluation import evaluate_test_split, validation_recall
from similis.run.features import frozen_features
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
from similis.run.recorder import chosen_path
from similis.run.result import RunResult, read_result
from similis.run.sharing import folder_for, is_first, sole_writer, wait_for_all
from similis.run.spec import RunSpec, parse_spec, read_spec
from similis.run.stage import Selection, Stage, load_chosen, run_stage
from similis.training.allocator import keep_freed_memory
from similis.training.checkpoint import previous_checkpoint
from similis.training.folder import RunFolder
from similis.training.tensors import save_model
from similis.values import UserError


def train(spec: RunSpec | Mapping[str, Any] | str | Path, *, runs: str | Path = "runs", workers: int = 0) -> RunResult:
    """Train a model, select it and evaluate it on classes that it has never seen.

    The same call again returns the same result at once; after a crash it goes on from the last checkpoint.

    Args:
        spec: a specification, its values as a mapping, or the path of a YAML or JSON file.
        runs: folder of all runs.
        workers: processes that load images; they change no number.

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
    return run(spec, Machine(root=Path(runs), workers=workers))


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
    source = open_source(spec, machine)
    place = address(spec, source.split.fingerprint, files_fingerprint(spec))
    folder, others = folder_for(machine.root / place, machine.communicator), machine.communicator
    if others is None:
        done = read_result(folder, place)
        if done is not None:
            tidy(folder)
            return done
    check_run(spec, source)
    with sole_writer(folder, others):
        return run_in_folder(spec, machine, watch, source, folder)


def run_in_folder(spec: RunSpec, machine: Machine, watch: Watch, source: Source, folder: RunFolder) -> RunResult:
    """The result in the folder, or else computed and put there; nobody else writes in it meanwhile."""
    others = machine.communicator
    wait_for_all(others)  # the first holds the folder: from here on all see the same of it
    done = read_result(folder, folder.path.name)
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
    """Select, refit where the protocol says so, evaluate."""
    split, others = source.split, machine.communicator
    validated = len(split.validation) > 0
    fixed = validated and spec.training.select == "last"  # the length was chosen beforehand: nothing validates
    choosing = split.validation if validated else split.test  # none of either: all epochs, nothing selects
    parts = prepare_parts(spec, machine, source)
    chosen = Selection(spec.training.epochs if fixed else 0, None, ())
    if spec.training.epochs and not fixed:
        if not validated and len(choosing):  # protocol default: the literature's habit, and on record
            folder.log({"stage": "select", "step": 0, "opened": "test split", "images": len(choosing)})
        judge = partial(validation_recall, rows=choosing, spec=spec, loader=parts.loader)
        validate = judge if len(choosing) else None
        begun = Stage("select", spec, parts, source, split.train, spec.training.epochs, folder, watch, validate)
        chosen = run_stage(begun.share_with(machine))
        folder.write("selection.json", asdict(chosen))
    refits = chosen.epoch > 0 and (fixed or (spec.training.refit and spec.data.protocol == "fixed-validation"))
    mining = chosen.mining_seconds
    if refits:
        parts = prepare_parts(spec, machine, source)
        everything = torch.cat([split.train, split.validation]).sort().values
        again = Stage("refit", spec, parts, source, everything, chosen.epoch, folder, watch)
        refit = run_stage(again.share_with(machine))
        mining += refit.mining_seconds
    if chosen.epoch:
        load_chosen(parts.model, folder, "refit" if refits else "select")
    test = None
    if is_first(others):
        save_model(folder.model, parts.model, {"contents": f"{folder.path.name}/model"})
        test = evaluate_test_split(parts, source, spec, folder)
    return RunResult(
        address=folder.path.name,
        folder=folder.path,
        spec=spec,
        epochs=chosen.epoch,
        trained_on=describe_training(chosen, refits or not validated),
        selected_on="nothing" if chosen.value is None else "validation" if validated else "test",
        validation={} if chosen.value is None else {"recall@1": chosen.value},
        history=chosen.history,
        test={} if test is None else dict(test.means),
        whole={} if test is None else dict(test.whole),
        excluded=0 if test is None else test.excluded,
        facts=collect_facts(parts.model, source),
        cost={"mining_seconds": round(mining, 3)} if resolve_sampler(spec) == "mined" else {},
    )


def prepare_parts(spec: RunSpec, machine: Machine, source: Source) -> Parts:
    """A fresh model and its loader; with a frozen backbone, a loader of its features."""
    if spec.model.trains == "head" and spec.model.pooling == "gem":
        raise UserError("gem learns, so it needs whole maps, which are not cached; choose gap+gmp, or model.trains=all")
    model = build_model(spec, machine)
    loader = build_loader(model, source, spec, machine)
    if spec.model.trains == "head":
        features = frozen_features(model, loader, source, spec, machine)
        return Parts(model, HeadOnly(model), feature_loader(features, source))
    return Parts(model, model, loader)


def describe_training(chosen: Selection, all_classes: bool) -> str:
    """In words, on what the final model was trained."""
    if not chosen.epoch:
        return "nothing"
    return "training classes" if all_classes else "training classes without validation"


def collect_facts(model: Embedder, source: Source) -> dict[str, Any]:
    """What must stand beside a number."""
    return {
        "data": source.manifest.fingerprint(),
        "split": source.split.fingerprint,
        "images": {
            "train": len(source.split.train),
            "validation": len(source.split.validation),
            "test": len(source.split.test),
        },
        "weights": model.weights_hash,
        "preprocessing": None if model.preprocessing is None else asdict(model.preprocessing),
        "numerics": NUMERICS,
        "code": code_version(),
    }
