"""Baselines of a table: what the same test images give without any training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from similis.retrieval.embed import embed
from similis.run.machine import Machine
from similis.run.network import build_model, pixels_of
from similis.run.parts import Source, images_for, open_source
from similis.run.spec import RunSpec, parse_spec
from similis.run.untouched import embed_rows, evaluate_embedded, untouched_networks
from similis.study.plan.jobs import base_values, draw_seed
from similis.study.plan.schema import Plan
from similis.study.records import Record, per_class
from similis.study.tournament_folder import TournamentFolder
from similis.values import Embedded

PIXEL_SIDE = 32  # larger images are averaged down to it: more of them are no better neighbours


@dataclass(frozen=True)
class FloorJob:
    """One baseline of an arena; an untrained network has one for each repetition."""

    arena: str
    floor: str
    repetition: int

    @property
    def name(self) -> str:
        """The name of its record."""
        return f"floor-{self.arena}-{self.floor.replace(',', '').replace(' ', '_')}-r{self.repetition}"


def floor_jobs(plan: Plan) -> Iterator[FloorJob]:
    """The baselines of every arena: the pretrained network, or else raw pixels and untrained networks."""
    for arena in plan.arenas if plan.floors else ():
        model = plan.arena_terms(arena).model
        if model.weights is not None:
            yield FloorJob(arena.name, "untouched network", 0)
            if model.image_size is not None:
                yield FloorJob(arena.name, "untouched network, own resolution", 0)
            continue
        yield FloorJob(arena.name, "raw vectors" if model.backbone == "identity" else "raw pixels", 0)
        for repetition in range(plan.repetitions):
            yield FloorJob(arena.name, "untrained network", repetition)


def measure_floor(folder: TournamentFolder, job: FloorJob) -> Record:
    """Measure one baseline, or read its record; the ledger notes its use of the test split."""
    known = folder.records.read(job.name)
    if known is not None:
        return known
    plan, machine = folder.begin(), folder.machine
    arena = plan.arena(job.arena)
    values = base_values(plan, plan.arena_terms(arena), plan.members(arena)[0], {})
    values["model"]["head"] = plan.arena_terms(arena).model.head  # not the first contestant's
    spec = parse_spec(values | {"seed": draw_seed(plan, job.repetition)})
    source = open_source(spec, machine)
    folder.ledger.note(job.name, why="a floor: nothing is trained", contestant=job.floor)
    found, pixels = embed_floor(job, spec, machine, source)
    result = evaluate_embedded(found, machine, source)
    scores = {"recall@1": result.per_query["recall@1"], "labels": found.labels[result.queries]}
    record = {
        "arena": job.arena, "floor": job.floor, "contestant": job.floor, "repetition": job.repetition, "pixels": pixels,
        "dim": found.vectors.shape[1],
        "test": {"recall@1": result.means["recall@1"]}, "per_class": per_class(scores),
    }  # fmt: skip
    return folder.records.write(job.name, record)


def embed_floor(job: FloorJob, spec: RunSpec, machine: Machine, source: Source) -> tuple[Embedded, int | None]:
    """Vectors of the test images, and their pixels of a side."""
    if job.floor.startswith("untouched"):
        own, *as_run = untouched_networks(spec, machine)
        untouched = own if "own" in job.floor or not as_run else as_run[0]
        return embed_rows(untouched, spec, machine, source, source.split.test), pixels_of(untouched)
    model = build_model(spec, machine).eval()
    loader = images_for(model, source.manifest, machine, policies=("eval",))
    network: nn.Module = model if job.floor == "untrained network" else RawPixels()
    batches = loader.ordered(source.split.test, batch_size=spec.evaluation.batch_size)
    return embed(network, batches, count=len(source.split.test)), pixels_of(model)


class RawPixels(nn.Module):
    """Images, averaged down to 32 pixels, as vectors around the mean of their pixels; vectors as they are."""

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, 3, h, w) or vectors (B, D) -> vectors of length 1."""
        if images.ndim == 4:
            images = nn.functional.adaptive_avg_pool2d(images, min(PIXEL_SIDE, images.shape[-1])).flatten(1)
            images = images - images.mean(dim=1, keepdim=True)
        return nn.functional.normalize(images)
