"""Photos without labels into clusters: a table and contact sheets; photos that come later join the clusters."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from similis.data.images import prepare
from similis.data.readers.folder import is_image, list_tree
from similis.figures.canvas import save_figure
from similis.figures.contact_sheet import Tile, draw_sheet
from similis.model.model import Model
from similis.retrieval.grouping import check_resolution, group_vectors, join_groups
from similis.retrieval.similarity import to_comparable
from similis.training.files import write_table
from similis.training.tensors import read_tensors, save_tensors
from similis.values import DataError, UserError, import_extra

TABLE, VECTORS, SHEET = "clusters.csv", "clusters.safetensors", "clusters.png"
FORMAT = "similis-clusters-2"
SIDE, ROWS, COLUMNS = 112, 30, 12  # of the contact sheet


@dataclass(frozen=True)
class Clustering:
    """Photos and their clusters.

    Attributes:
        paths: of the photos, relative to their folder.
        assignment: (N,) cluster of each.
        new: photos that were not there when clusters were made the last time.
    """

    paths: Sequence[str]
    assignment: Tensor
    new: int


def cluster_folder(model: Model, folder: Path, out: Path, resolution: float, *, pictures: bool = True) -> Clustering:
    """Cluster the photos of a folder and write table, vectors and contact sheet.

    Where ``out`` holds clusters of an earlier call with the same model and resolution, its photos keep their clusters,
    and only the new photos are embedded: each joins the cluster of its nearest ones, and none opens a cluster.

    Args:
        model: whose embeddings compare the photos.
        folder: of photos, at any depth; names of folders do not matter.
        out: for what is written.
        resolution: higher gives more, smaller clusters.
        pictures: whether the contact sheet is drawn.
    """
    paths = [path for path in list_tree(str(folder))[0] if is_image(path)]
    if not paths:
        raise DataError(f"{str(folder)!r} holds no image; give a folder of photos")
    check_resolution(resolution)
    import_extra("sknetwork.clustering")  # what is missing should be said before photos are embedded
    about = {"format": FORMAT, "contents": model.model_hash, "resolution": f"{resolution:g}"}
    held, vectors, assignment = read_clusters(out, model.dim, about)
    known = set(held)
    new = [path for path in paths if path not in known]
    fresh = to_comparable(model.encode([folder / path for path in new]))
    joined = join_groups(fresh, vectors, assignment) if held else group_vectors(fresh, resolution)
    found = Clustering([*held, *new], torch.cat([assignment, joined]), len(new))
    write_clusters(found, out, torch.cat([vectors, fresh]), about)
    if pictures:
        draw_clusters(found, folder, out / SHEET)
    return found


def read_clusters(out: Path, dim: int, about: Mapping[str, str]) -> tuple[list[str], Tensor, Tensor]:
    """Paths, vectors and clusters of an earlier call like this one; nothing if there is none."""
    if not (out / TABLE).exists():
        return [], torch.empty(0, dim), torch.empty(0, dtype=torch.long)
    tensors, metadata = read_tensors(out / VECTORS)
    if metadata.get("contents") != about["contents"]:
        raise UserError(f"{out} holds clusters of another model; give another folder with --out, or delete it")
    if metadata.get("resolution") != about["resolution"]:
        raise UserError(
            f"resolution {about['resolution']} given, but {out} holds clusters of resolution "
            f"{metadata.get('resolution', 'unknown')}; give that for new photos to join, or another folder with --out"
        )
    with (out / TABLE).open(newline="", encoding="utf-8") as file:
        paths = [line["path"] for line in csv.DictReader(file)]
    if len(paths) != len(tensors["vectors"]):
        raise DataError(f"{out / TABLE} and {out / VECTORS} do not belong together; delete the folder")
    return paths, tensors["vectors"], tensors["assignment"]


def write_clusters(found: Clustering, out: Path, vectors: Tensor, about: Mapping[str, str]) -> None:
    """The table of photos, and what later photos are compared with."""
    save_tensors(out / VECTORS, {"vectors": vectors, "assignment": found.assignment}, about)
    write_table(out / TABLE, [("path", "cluster"), *zip(found.paths, found.assignment.tolist(), strict=True)])


def draw_clusters(found: Clustering, folder: Path, path: Path) -> None:
    """One row of photos for each of the largest clusters."""
    rows = []
    for cluster in range(min(ROWS, int(found.assignment.max()) + 1)):
        members = (found.assignment == cluster).nonzero()[:, 0].tolist()
        words = f"{cluster}: {len(members)} photos"
        shown = [folder / found.paths[member] for member in members[:COLUMNS]]
        pixels = [prepare(each.read_bytes(), resize=SIDE) for each in shown if each.is_file()]
        rows.append([Tile(image, words if n == 0 else "") for n, image in enumerate(pixels)])
    save_figure(draw_sheet([row for row in rows if row], side=SIDE, title="largest clusters"), path)


def copy_clusters(found: Clustering, folder: Path, out: Path) -> None:
    """Copy every photo into a folder of its cluster."""
    for path, cluster in zip(found.paths, found.assignment.tolist(), strict=True):
        place = out / f"cluster-{cluster:05d}" / path.replace("/", "__")
        place.parent.mkdir(parents=True, exist_ok=True)
        if (folder / path).is_file() and not place.exists():
            shutil.copy2(folder / path, place)
