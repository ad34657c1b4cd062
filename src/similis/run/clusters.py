"""Photos without labels into clusters: a table and contact sheets; photos that come later join or open clusters."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from similis.data.images import prepare
from similis.data.manifest import Manifest
from similis.data.readers.folder import is_image, list_tree
from similis.figures.canvas import save_figure
from similis.figures.contact_sheet import Tile, draw_sheet
from similis.retrieval.grouping import describe, group_vectors, grouping_threshold, join_groups
from similis.retrieval.similarity import to_comparable
from similis.run.model import Model
from similis.training.files import replace_file
from similis.training.tensors import read_tensors, save_tensors
from similis.values import DataError, UserError

TABLE, VECTORS, SHEET = "clusters.csv", "clusters.safetensors", "clusters.png"
FORMAT = "similis-clusters-1"
MARGIN = 0.03  # of the threshold, within which a cluster is doubted
SIDE, ROWS, COLUMNS = 112, 30, 12  # of the contact sheet


@dataclass(frozen=True)
class Clustering:
    """Photos and their clusters.

    Attributes:
        paths: of the photos, relative to their folder.
        assignment: (N,) cluster of each.
        doubted: (C,) whether a cluster nearly fell into two, or nearly merged with another.
        threshold: mean similarity from which clusters merge.
        new: photos that were not there when clusters were made the last time.
        approximate: photos in components that were too large for exact linkage.
    """

    paths: Sequence[str]
    assignment: Tensor
    doubted: Tensor
    threshold: float
    new: int
    approximate: int


def cluster_threshold(model: Model, given: float | None, labelled: Manifest | None) -> tuple[float, str]:
    """The threshold, and where it comes from: given, best for labelled photos, or stored with the model."""
    if given is not None:
        return given, "as given"
    if labelled is not None:
        value, score = grouping_threshold(to_comparable(model.encode(labelled)), labelled.labels)
        return value, f"chosen on {labelled.name}, pair F1 {score:.3f} there"
    if model.chosen is not None:
        return model.chosen.value, f"stored with the model, for a false accept rate of {model.chosen.far:g}"
    raise UserError(
        "the model has no threshold for same or different; give labelled photos of similar things with --labelled "
        "DATA, choose one with: similis verify RUN DATA, or give a similarity with --threshold"
    )


def cluster_folder(model: Model, folder: Path, out: Path, threshold: float, *, pictures: bool = True) -> Clustering:
    """Cluster the photos of a folder and write table, vectors and contact sheet.

    Where ``out`` holds clusters of an earlier call with the same model, its photos keep their clusters, and only the
    new photos are embedded: each joins the cluster that it is most like, or opens one.

    Args:
        model: whose embeddings compare the photos.
        folder: of photos, at any depth; names of folders do not matter.
        out: for what is written.
        threshold: mean cosine similarity from which clusters merge.
        pictures: whether the contact sheet is drawn.
    """
    paths = [path for path in list_tree(str(folder))[0] if is_image(path)]
    if not paths:
        raise DataError(f"{str(folder)!r} holds no image; give a folder of photos")
    held, vectors, assignment = read_clusters(out, model)
    known = set(held)
    new = [path for path in paths if path not in known]
    fresh = to_comparable(model.encode([folder / path for path in new]))
    approximate = 0
    if held:
        joined = join_groups(fresh, vectors, assignment, threshold) if new else torch.empty(0, dtype=torch.long)
    else:
        groups = group_vectors(fresh, threshold)
        joined, approximate = groups.assignment, groups.approximate
    every, vectors, assignment = [*held, *new], torch.cat([vectors, fresh]), torch.cat([assignment, joined])
    fit = describe(vectors, assignment)
    sizes = assignment.bincount()
    cohesion, rival = (torch.zeros(len(sizes)).index_add_(0, assignment, each) / sizes for each in fit)
    doubted = ((cohesion - threshold < MARGIN) & (sizes > 1)) | (threshold - rival < MARGIN)
    found = Clustering(every, assignment, doubted, threshold, len(new), approximate)
    write_clusters(found, out, model, vectors)
    if pictures:
        draw_clusters(found, folder, out / SHEET)
    return found


def read_clusters(out: Path, model: Model) -> tuple[list[str], Tensor, Tensor]:
    """Paths, vectors and clusters of an earlier call; nothing if there is none."""
    if not (out / TABLE).exists():
        return [], torch.empty(0, model.dim), torch.empty(0, dtype=torch.long)
    tensors, metadata = read_tensors(out / VECTORS)
    if metadata.get("contents") != model.model_hash:
        raise UserError(f"{out} holds clusters of another model; give another folder with --out, or delete it")
    with (out / TABLE).open(newline="", encoding="utf-8") as file:
        paths = [line["path"] for line in csv.DictReader(file)]
    if len(paths) != len(tensors["vectors"]):
        raise DataError(f"{out / TABLE} and {out / VECTORS} do not belong together; delete the folder")
    return paths, tensors["vectors"], tensors["assignment"]


def write_clusters(found: Clustering, out: Path, model: Model, vectors: Tensor) -> None:
    """The table of photos, and what later photos are compared with."""

    def write(beside: Path) -> None:
        with beside.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["path", "cluster", "doubted"])
            for path, cluster in zip(found.paths, found.assignment.tolist(), strict=True):
                table.writerow([path, cluster, "yes" if found.doubted[cluster] else "no"])

    tensors = {"vectors": vectors, "assignment": found.assignment}
    save_tensors(out / VECTORS, tensors, {"format": FORMAT, "contents": model.model_hash})
    replace_file(out / TABLE, write)


def draw_clusters(found: Clustering, folder: Path, path: Path) -> None:
    """One row of photos for each of the largest clusters."""
    rows = []
    for cluster in range(min(ROWS, len(found.doubted))):
        members = (found.assignment == cluster).nonzero()[:, 0].tolist()
        words = f"{cluster}{' ?' if found.doubted[cluster] else ''}: {len(members)} photos"
        shown = [folder / found.paths[member] for member in members[:COLUMNS]]
        pixels = [prepare(each.read_bytes(), resize=SIDE) for each in shown if each.is_file()]
        rows.append([Tile(image, words if n == 0 else "") for n, image in enumerate(pixels)])
    save_figure(draw_sheet([row for row in rows if row], side=SIDE, title="largest clusters; ? is doubted"), path)


def copy_clusters(found: Clustering, folder: Path, out: Path) -> None:
    """Copy every photo into a folder of its cluster."""
    for path, cluster in zip(found.paths, found.assignment.tolist(), strict=True):
        place = out / f"cluster-{cluster:05d}" / path.replace("/", "__")
        place.parent.mkdir(parents=True, exist_ok=True)
        if (folder / path).is_file() and not place.exists():
            shutil.copy2(folder / path, place)
